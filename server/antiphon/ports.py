"""Every seam of the server on one page. Adapters implement these; only `app.py` names the adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from antiphon.core.principal import Principal


class Clock(Protocol):
    """Time from outside, so that a test can turn it."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class Ids(Protocol):
    """Where ids come from."""

    def mint(self, prefix: str) -> str:
        """A new id `<prefix>_<32 hex of a UUIDv7>`, e.g. prefix `resp`, `msg`, `fc`, `call`."""
        ...

    def token(self) -> str:
        """A short random token, 16 hex characters: epochs, connection ids."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, in the words of the Responses API.

    model: the name the upstream knows. body: the complete JSON body as the upstream takes it
    (`stream` true, `store` false, history already in `input`). caller_token: the caller's own upstream
    credential, or None.
    """

    run_id: str
    model: str
    body: bytes
    caller_token: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class Upstream(Protocol):
    """A source of model events: a server over HTTP, or a model built in.

    Events are JSON objects as bytes, shaped as Responses stream events; their ids and numbers are the
    upstream's own and will be replaced. Several events that are there at once come in one batch.
    """

    name: str

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """Run the call. Closing the iterator closes the upstream connection at once.

        A normal end without a terminal event is legal here; the caller judges it.
        Raises UpstreamError.
        """
        ...

    async def models(self) -> Sequence[str]:
        """Names of the models it serves. Raises UpstreamError."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


class Authenticator(Protocol):
    """Turns credentials into a principal."""

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """headers: lower-case names. Raises Unauthorized."""
        ...
