"""`response.steer` on one connection: taken, refused, and what becomes of it later (PROTOCOL 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from antiphon.core.lanes import LaneName
from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.engine import Engine
from antiphon.runs.run import CreatorConnection
from antiphon.runs.steering.settled import SteerSettled
from antiphon.session.caller import Caller
from antiphon.session.socket import Socket, send_json

_DOOR = frozenset({"server_draining", "forbidden"})
"""What the door says; in the vendor's words the successor could not be made."""

_FIELDS = frozenset({"type", "previous_response_id", "input"})

LaneOf = Callable[[str], tuple[bool, LaneName]]
"""Whether a run is being delivered on this connection, and on which lane."""


class Steers:
    """Steers sent over one connection."""

    def __init__(
        self, engine: Engine, caller: Caller, socket: Socket, connection: CreatorConnection, lane_of: LaneOf
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._socket = socket
        self._connection = connection
        self._lane_of = lane_of
        self._later: dict[str, list[Callable[[], None]]] = {}
        """What is told of a run once its delivery here is over, so that it follows the terminal event."""

    async def take(self, frame: dict[str, Any]) -> None:
        """Answer one `response.steer`. Raises RequestError for a frame that lacks its fields."""
        target, given = frame.get("previous_response_id"), frame.get("input")
        if not isinstance(target, str) or not target:
            raise RequestError("response.steer needs previous_response_id.", param="previous_response_id")
        if not isinstance(given, (str, list)):
            raise RequestError("response.steer needs input: a text or a list of messages.", param="input")
        _, lane = self._lane_of(target)
        settled = partial(self._settled, lane)
        try:
            if extra := frame.keys() - _FIELDS:
                raise RequestError(f"response.steer has no field {min(extra)[:80]!r}.", code="invalid_input")
            taken = await self._engine.reach.steer(
                target, given, self._caller.principal, self._connection, settled
            )
        except AntiphonError as error:
            number = await self._engine.reach.last_number(target, self._caller.principal)
            self._send(
                "failed", lane, number, {"previous_response_id": target, "input": given}, error=_error(error)
            )
            return
        self._send("accepted", lane, taken.number, {"id": taken.steer_id, "previous_response_id": target})

    def delivered(self, response_id: str) -> None:
        """A lane of this run is over."""
        if not self._lane_of(response_id)[0]:
            for tell in self._later.pop(response_id, ()):
                tell()

    def _settled(self, lane: LaneName, settled: SteerSettled) -> None:
        if settled.stage == "applied":
            return  # the successor says so
        tell = partial(self._tell, lane, settled)
        if self._lane_of(settled.response_id)[0] and self._connection.open:
            self._later.setdefault(settled.response_id, []).append(tell)
        else:
            tell()

    def _tell(self, lane: LaneName, settled: SteerSettled) -> None:
        target = {"id": settled.steer_id, "previous_response_id": settled.response_id}
        error = settled.error
        if error is not None:
            self._send("failed", lane, settled.number, target | {"input": settled.given}, error=_error(error))
        elif not self._was_applied(settled):
            more = {"reason": "waiting_for_required_input", "required_input": settled.required_input}
            self._send("pending", lane, settled.number, target, **more)

    def _was_applied(self, settled: SteerSettled) -> bool:
        """Whether the create that a steer waited for has been there meanwhile."""
        try:
            state = self._engine.registry.get(settled.response_id)
        except KeyError:
            return False
        return any(row["id"] == settled.steer_id and row["stage"] == "applied" for row in state.steers)

    def _send(self, kind: str, lane: LaneName, number: int, steer: dict[str, Any], **fields: Any) -> None:
        frame = {"type": f"response.steer.{kind}", "sequence_number": max(number, 0), **fields, "steer": steer}
        if lane is not None:
            frame["stream_id"] = lane
        send_json(self._socket, frame)


def _error(error: AntiphonError) -> dict[str, Any]:
    code = "successor_creation_failed" if error.code in _DOOR else error.code
    return {"type": "invalid_request_error", "code": code, "message": error.message}
