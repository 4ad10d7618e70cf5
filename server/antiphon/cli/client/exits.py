"""How commands end that a signal or a reader ended: with the statuses that shells know."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
"""After Ctrl-C."""
BROKEN_PIPE = 141
"""After the reader of a pipe left."""


def nobody_reads() -> int:
    """The reader left: what Python would flush at its end has nowhere to go either. Gives the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
