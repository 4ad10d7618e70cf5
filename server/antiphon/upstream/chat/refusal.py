"""How a request is refused that a Chat Completions server cannot be asked."""

from __future__ import annotations

from antiphon.errors import RequestError


def unsupported(message: str, param: str) -> RequestError:
    """param: the field at fault."""
    return RequestError(message, code="unsupported_parameter", param=param)
