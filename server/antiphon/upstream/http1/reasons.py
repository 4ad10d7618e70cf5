"""What went wrong with a connection, in words that hold no URL: that may hold a secret."""

from __future__ import annotations

import os
import socket
import ssl


def reason(error: BaseException) -> str:
    """A few words, or the name of the error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(error, ssl.SSLError):
        return "TLS failed"
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        # Not `error.strerror`: asyncio writes the address into it.
        return os.strerror(error.errno).lower()
    return type(error).__name__
