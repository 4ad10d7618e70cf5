"""The `antiphon:` commands of one connection (PROTOCOL "The extension"): hello, attach, detach, cancel, ping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from pydantic import ValidationError

from antiphon import __version__
from antiphon.core.attach import AttachPlan
from antiphon.core.faults import refusal
from antiphon.core.lanes import check_lane_name
from antiphon.core.principal import Principal
from antiphon.core.run_state import RunState
from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.directory import Source
from antiphon.runs.run import Run
from antiphon.session.attachment import Attachment, EndReason
from antiphon.session.engine import Engine
from antiphon.session.frames import command_error
from antiphon.session.socket import Socket, send_json
from antiphon.session.turns import Turns
from antiphon_protocol import extension as wire

log = structlog.get_logger(__name__)

FEATURES = ["attach", "cancel", "resume", "run_state", "idempotency"]


@dataclass(slots=True)
class _Attached:
    attachment: Attachment
    source: Source


class Extension:
    """Commands and pushes. Nothing is pushed before the client has said hello."""

    def __init__(
        self, engine: Engine, principal: Principal, socket: Socket, turns: Turns, connection_id: str
    ) -> None:
        self.said_hello = False
        self._engine = engine
        self._principal = principal
        self._socket = socket
        self._turns = turns
        self._connection_id = connection_id
        self._opened_at = engine.clock.now()
        self._attached: dict[str, _Attached] = {}
        """By lane."""
        self._next_lane = 1
        self._watched: dict[str, int] = {}
        self._commands: dict[str, Callable[[Any], Awaitable[dict[str, Any] | None]]] = {
            "antiphon:hello": self._hello,
            "antiphon:attach": self._attach,
            "antiphon:detach": self._detach,
            "antiphon:cancel": self._cancel,
            "antiphon:ping": self._ping,
        }

    async def command(self, kind: str, frame: dict[str, Any]) -> str | None:
        """Answer one command with exactly one reply; gives the code if it was refused."""
        given = frame.get("id")
        command_id = given if isinstance(given, str) and 1 <= len(given) <= 256 else None
        try:
            handler = self._commands.get(kind)
            if handler is None:
                raise RequestError(f"This server does not know {kind[:80]}.", code="unknown_command", param="type")
            if not self.said_hello and kind not in ("antiphon:hello", "antiphon:ping"):
                raise RequestError("Say antiphon:hello first.", code="hello_required")
            reply = await handler(_parse(frame))
        except AntiphonError as error:
            return self._refuse(command_id, error)
        except Exception:
            log.exception("command_crashed", command=kind, connection_id=self._connection_id)
            return self._refuse(command_id, AntiphonError("The server could not carry out this command."))
        if reply is not None:
            send_json(self._socket, reply)
        return None

    def uses_lane(self, lane: str) -> bool:
        return lane in self._attached

    def deliveries(self) -> list[Attachment]:
        return [attached.attachment for attached in self._attached.values()]

    def goaway(self, reason: str, deadline_ms: int, spread_ms: int) -> None:
        """Tell a client that said hello that this connection will end."""
        if self.said_hello:
            frame = {
                "type": "antiphon:goaway",
                "reason": reason,
                "deadline_ms": deadline_ms,
                "spread_ms": spread_ms,
            }
            send_json(self._socket, frame)

    def watch(self, run: Run) -> None:
        """Push this run's state from now on (once, however many ways it is attached)."""
        count = self._watched.get(run.id, 0)
        self._watched[run.id] = count + 1
        if count == 0:
            self._engine.registry.listen(run.id, self._push_state)
            self._push_state(run.state)

    def unwatch(self, run: Run) -> None:
        """Stop pushing, once what is happening now has been told: the last state belongs to the watcher too."""
        asyncio.get_running_loop().call_soon(self._unwatch, run)

    def _unwatch(self, run: Run) -> None:
        count = self._watched.pop(run.id, 0) - 1
        if count > 0:
            self._watched[run.id] = count
        else:
            self._engine.registry.unlisten(run.id, self._push_state)

    def close(self) -> None:
        """The connection is gone."""
        for lane in list(self._attached):
            self._drop(lane)
        for response_id in self._watched:
            self._engine.registry.unlisten(response_id, self._push_state)
        self._watched.clear()

    def _refuse(self, command_id: str | None, error: AntiphonError) -> str:
        send_json(self._socket, command_error(command_id, error))
        if error.code == "unsupported_version":
            self._socket.close(4505, "unsupported version")
        return error.code

    # Commands

    async def _hello(self, command: wire.Hello) -> dict[str, Any]:
        if command.protocol != wire.PROTOCOL_VERSION:
            raise RequestError(
                f"This server speaks version {wire.PROTOCOL_VERSION} of the extension.",
                code="unsupported_version",
                param="protocol",
            )
        self.said_hello = True
        settings = self._engine.settings
        return {
            "type": "antiphon:welcome",
            "id": command.id,
            "server": {"name": "antiphon", "version": __version__},
            "protocol": wire.PROTOCOL_VERSION,
            "connection_id": self._connection_id,
            "max_message_bytes": settings.limits.max_message_bytes,
            "resume_window_s": settings.journal.retention_s,
            "connection_expires_at": self._opened_at + settings.timeouts.connection_age_s,
            "features": FEATURES,
        }

    async def _ping(self, command: wire.Ping) -> dict[str, Any]:
        return {"type": "antiphon:pong", "id": command.id}

    async def _cancel(self, command: wire.Cancel) -> dict[str, Any]:
        result = await self._engine.service.cancel_by_id(command.response_id, self._principal, command.reason)
        return {"type": "antiphon:ok", "id": command.id, "result": result}

    async def _detach(self, command: wire.Detach) -> dict[str, Any]:
        lane = self._lane_of(command.response_id)
        if lane is None:
            raise RequestError("This connection is not attached to that response.", code="not_attached")
        self._drop(lane)
        return {"type": "antiphon:ok", "id": command.id}

    async def _attach(self, command: wire.Attach) -> dict[str, Any] | None:
        source = await self._engine.directory.source(command.response_id, self._principal)
        plan = await self._engine.directory.plan(source, command.after, command.epoch)
        lane = self._choose_lane(command)
        previous = self._lane_of(command.response_id)
        if previous is not None:
            self._drop(previous)
        send_json(self._socket, self._attached_reply(command, lane, source, plan))
        self._open(lane, source, plan)
        return None

    def _attached_reply(self, command: wire.Attach, lane: str, source: Source, plan: AttachPlan) -> dict[str, Any]:
        reply: dict[str, Any] = {
            "type": "antiphon:attached",
            "id": command.id,
            "response_id": command.response_id,
            "stream_id": lane,
            "epoch": source.log.epochs.current,
            "head": max(source.log.shown, 0),
            "mode": plan.mode,
            "recovered": plan.mode != "snapshot",
            "state": source.state,
        }
        if plan.mode == "snapshot":
            reply["reason"] = "cursor_expired"
        if plan.mode in ("snapshot", "ended"):
            response = source.run.response() if source.run is not None else source.response
            reply["response"] = orjson.Fragment(response)
        return reply

    def _open(self, lane: str, source: Source, plan: AttachPlan) -> None:
        head = {"response_id": source.log.run_id, "stream_id": lane}

        def caught_up() -> None:
            shown = max(source.log.shown, 0)
            send_json(self._socket, {"type": "antiphon:caught_up", **head, "head": shown})

        def ended(reason: EndReason) -> None:
            self._drop(lane)
            send_json(self._socket, {"type": "antiphon:detached", **head, "reason": reason})

        attachment = Attachment(source.log, self._engine.journal, self._socket, lane, plan.after, ended, caught_up)
        self._attached[lane] = _Attached(attachment, source)
        if source.run is not None:
            self._engine.supervisor.listened(source.run)
            self.watch(source.run)
        attachment.start()

    # Lanes of attachments

    def _choose_lane(self, command: wire.Attach) -> str:
        limit = self._engine.settings.limits.attachments_per_connection
        own = self._lane_of(command.response_id)
        if len(self._attached) >= limit and own is None:
            raise RequestError(f"This connection already holds {limit} attachments.", code="too_many_attachments")
        if command.stream_id is None and own is not None:
            return own
        if command.stream_id is not None:
            lane = check_lane_name(command.stream_id)
            if lane != own and (lane in self._attached or self._turns.knows_lane(lane)):
                raise RequestError("This lane is in use.", code="lane_in_use", param="stream_id")
            return lane
        while True:
            lane = f"att.{self._next_lane}"
            self._next_lane += 1
            if lane not in self._attached and not self._turns.knows_lane(lane):
                return lane

    def _lane_of(self, response_id: str) -> str | None:
        for lane, attached in self._attached.items():
            if attached.source.log.run_id == response_id:
                return lane
        return None

    def _drop(self, lane: str) -> None:
        attached = self._attached.pop(lane, None)
        if attached is None:
            return
        attached.attachment.stop()
        if attached.source.run is not None:
            self._engine.supervisor.left(attached.source.run)
            self.unwatch(attached.source.run)

    def _push_state(self, state: RunState) -> None:
        if self.said_hello:
            frame = {"type": "antiphon:run", "response_id": state.response_id, "state": state.row()}
            send_json(self._socket, frame)


def _parse(frame: dict[str, Any]) -> wire.AnyCommand:
    try:
        return wire.extension_command.validate_python(frame)
    except ValidationError as error:
        raise refusal(error, frame, code="invalid_command") from error
