"""What the rest of the server asks of tracing. Nobody asks where it is switched off: there it is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from antiphon.core.run_state import RunState
from antiphon.ops.lifecycle import Entry


class Tracing(Protocol):
    """Never waits, never raises, and says nothing of what is said in a run."""

    def told(self, tenant: str, entry: Entry) -> None:
        """A lifecycle event of a run: an observer of `Lifecycle`."""
        ...

    def given(self, state: RunState) -> None:
        """A run goes on at another node."""
        ...

    def of_step(self, run_id: str) -> Mapping[str, str]:
        """Headers for the model server that is about to be called; none if it is not to be told."""
        ...

    def of_tool(self, run_id: str, call_id: str) -> Mapping[str, str]:
        """Headers for the server of a tool that is about to be called; none if it is not to be told."""
        ...

    def attached(
        self, run_id: str, transport: Literal["websocket", "sse"], mode: str, traceparent: str | None
    ) -> None:
        """Somebody attached to a run. traceparent: of the request that did, as it came."""
        ...

    async def aclose(self) -> None:
        """End what is open and send what waits, within a few seconds."""
        ...
