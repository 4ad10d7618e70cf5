"""A clock that is turned by hand, and states of runs, for tests."""

from __future__ import annotations

from antiphon.core.run_state import RunState


class FakeClock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def state(response_id: str = "resp_1", tenant: str = "default") -> RunState:
    return RunState(
        response_id=response_id,
        conversation_id="conv_1",
        tenant=tenant,
        principal="user:local",
        model="m",
        upstream="u",
        origin="http",
        epoch="a" * 16,
        created_at=1000.0,
        updated_at=1000.0,
    )
