"""What the end of a connection, or its refusal, means (PROTOCOL 13): come back, or say why not."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.errors import ClientError
from antiphon_protocol.codes import CODES

FINAL_CLOSES = frozenset({1002, 1007, 1008, 1009})
"""Standard close codes after which the same client would be closed again. 1008: its credentials or manners."""

_WORDS = {
    4000: "the server is restarting",
    4001: "the server is overloaded",
    4002: "the token ran out",
    4004: "the connection was too old",
    4029: "too many requests",
    4500: "the credentials are not good any more",
    4502: "these credentials do not allow it",
    4505: "the server speaks another version of the protocol",
}
_ADVICE = {
    "authentication_required": "Set ANTIPHON_API_KEY.",
    "invalid_api_key": "ANTIPHON_API_KEY holds no key of this server.",
    "token_expired": "Get a new token and set ANTIPHON_API_KEY to it.",  # nosec B105: words, not a token
    "unsupported_version": "Install the antiphon of the server's version.",
}


def is_final(code: int | None) -> bool:
    """Whether the server closed for good. None: the connection was lost without a close."""
    return code is not None and (code in FINAL_CLOSES or 4500 <= code <= 4999)


def closed_words(code: int | None, reason: str) -> str:
    """The end of a connection in words."""
    if code is None or code == 1006:
        return "the connection was lost"
    return _WORDS.get(code) or (f"closed with {code}: {reason}" if reason else f"closed with {code}")


def refused(code: str, message: str) -> ClientError:
    """The error of a refusal. code: of the table in PROTOCOL 12."""
    advice = _ADVICE.get(code)
    return ClientError(f"{message} {advice}" if advice else message, code=code)


def refused_upgrade(status: int, body: bytes) -> tuple[ClientError, bool]:
    """The error of an upgrade that was answered with an HTTP status, and whether another attempt can go well."""
    error: Any = None
    try:
        error = orjson.loads(body)
        code, message = str(error["error"]["code"]), str(error["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        words = f"what listens there is no Antiphon server: it answered the upgrade with {status}"
        return ClientError(words, status=status), status >= 500
    spec = CODES.get(code)
    return refused(code, message), spec.retryable if spec is not None else status >= 500
