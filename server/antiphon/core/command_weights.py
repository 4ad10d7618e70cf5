"""What a command costs of a bucket, in creates: what makes a model or the store work weighs more than a reply."""

from __future__ import annotations

_REPLY = 0.1
"""Everything that is answered from memory, and what is not known at all."""

_WEIGHTS = {
    "response.create": 1.0,
    "response.steer": 0.5,
    "antiphon:attach": 0.5,
    "antiphon:feed.subscribe": 0.5,
}


def weight(kind: str) -> float:
    """kind: `type` of a frame."""
    return _WEIGHTS.get(kind, _REPLY)


def request_weight(method: str, path: str) -> float:
    """The same for a request over HTTP."""
    if method == "POST" and path in ("/v1/responses", "/v1/responses/compact"):
        return _WEIGHTS["response.create"]
    return _REPLY
