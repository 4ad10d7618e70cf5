"""`response.steer` on one connection: taken, refused, and what becomes of it later (PROTOCOL 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from antiphon.core.lanes import LaneName
from antiphon.core.principal import Principal
from antiphon.core.steering import Steer, required_input
from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.engine import Engine
from antiphon.runs.run import CreatorConnection, Run
from antiphon.session.socket import Socket, send_json

_DOOR = frozenset({"server_draining", "forbidden"})
"""What the door says; in the vendor's words the successor could not be made."""

_FIELDS = frozenset({"type", "previous_response_id", "input"})

LaneOf = Callable[[str], tuple[bool, LaneName]]
"""Whether a run is being delivered on this connection, and on which lane."""


class Steers:
    """Steers sent over one connection."""

    def __init__(
        self, engine: Engine, principal: Principal, socket: Socket, connection: CreatorConnection, lane_of: LaneOf
    ) -> None:
        self._engine = engine
        self._principal = principal
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
            run, steer = await self._engine.steering.steer(
                target, given, self._principal, self._connection, settled
            )
        except AntiphonError as error:
            number = await self._last_number(target)
            self._send(
                "failed", lane, number, {"previous_response_id": target, "input": given}, error=_error(error)
            )
            return
        self._send("accepted", lane, run.log.shown, {"id": steer.id, "previous_response_id": run.id})

    def delivered(self, response_id: str) -> None:
        """A lane of this run is over."""
        if not self._lane_of(response_id)[0]:
            for tell in self._later.pop(response_id, ()):
                tell()

    def _settled(self, lane: LaneName, run: Run, steer: Steer, error: AntiphonError | None) -> None:
        tell = partial(self._tell, lane, run, steer, error)
        if self._lane_of(run.id)[0] and self._connection.open:
            self._later.setdefault(run.id, []).append(tell)
        else:
            tell()

    def _tell(self, lane: LaneName, run: Run, steer: Steer, error: AntiphonError | None) -> None:
        target = {"id": steer.id, "previous_response_id": run.id}
        if error is not None:
            self._send("failed", lane, run.log.shown, target | {"input": steer.given}, error=_error(error))
        elif steer.stage == "pending":  # else the create it waited for has been there already
            calls = required_input(run.turn.open_calls if run.turn is not None else ())
            more = {"reason": "waiting_for_required_input", "required_input": calls}
            self._send("pending", lane, run.log.shown, target, **more)

    def _send(self, kind: str, lane: LaneName, number: int, steer: dict[str, Any], **fields: Any) -> None:
        frame = {"type": f"response.steer.{kind}", "sequence_number": max(number, 0), **fields, "steer": steer}
        if lane is not None:
            frame["stream_id"] = lane
        send_json(self._socket, frame)

    async def _last_number(self, response_id: str) -> int:
        """The number a refusal carries: the last one of the log, 0 if there is none this client may see."""
        run = self._engine.directory.live(response_id, self._principal)
        if run is not None:
            return run.log.shown
        try:
            stored = await self._engine.directory.stored(response_id, self._principal)
        except AntiphonError:
            return 0
        return stored.terminal_number or 0


def _error(error: AntiphonError) -> dict[str, Any]:
    code = "successor_creation_failed" if error.code in _DOOR else error.code
    return {"type": "invalid_request_error", "code": code, "message": error.message}
