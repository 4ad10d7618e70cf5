"""The `antiphon:` commands of one connection (PROTOCOL "The extension"): hello, attach, detach, cancel, ping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from pydantic import ValidationError

from antiphon import __version__
from antiphon.core.attach import AttachPlan
from antiphon.core.faults import refusal
from antiphon.core.run_state import RunState
from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.directory import Source, live_state
from antiphon.runs.engine import Engine
from antiphon.runs.run import CreatorConnection, Followed
from antiphon.session.attachment import Attachment
from antiphon.session.attachments import AttachmentHooks, Attachments, attached_fields
from antiphon.session.caller import Caller
from antiphon.session.commands_held import HeldCommands
from antiphon.session.conversations import Conversations
from antiphon.session.entrance import accepted
from antiphon.session.feed import Feeds
from antiphon.session.frames import command_error
from antiphon.session.presence import Presence
from antiphon.session.socket import Socket, send_json
from antiphon.session.turns import Turns
from antiphon_protocol import extension as wire

log = structlog.get_logger(__name__)

FEATURES = [
    "attach",
    "cancel",
    "resume",
    "run_state",
    "idempotency",
    "steer",
    "conversations",
    "held_calls",
    "feed",
]


_BEFORE_HELLO = frozenset({"antiphon:hello", "antiphon:auth", "antiphon:ping"})


class Extension:
    """Commands and pushes. Nothing is pushed before the client has said hello."""

    def __init__(
        self, engine: Engine, caller: Caller, socket: Socket, turns: Turns, connection: CreatorConnection
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._socket = socket
        self._turns = turns
        self._connection = connection
        self._opened_at = engine.clock.now()
        self._watched: dict[str, int] = {}
        self.presence = Presence(engine, caller, connection)
        hooks = AttachmentHooks(opened=self.watch, dropped=self._dropped)
        self._attachments = Attachments(engine, socket, turns, hooks)
        self._conversations = Conversations(engine, caller, socket, self._attachments)
        self._feeds = Feeds(engine.feeds, caller, socket, engine.settings.limits.feeds_per_connection)
        self.delivered: Callable[[str], None] = lambda response_id: None
        """Called when an attachment to a live run is over."""
        self._commands: dict[str, Callable[[Any], Awaitable[dict[str, Any] | None]]] = {
            "antiphon:hello": self._hello,
            "antiphon:auth": self._auth,
            "antiphon:attach": self._attach,
            "antiphon:detach": self._detach,
            "antiphon:cancel": self._cancel,
            "antiphon:ping": self._ping,
            **HeldCommands(engine, caller, self.presence).handlers(),
            **self._feeds.handlers(),
        }

    async def command(self, kind: str, frame: dict[str, Any]) -> str | None:
        """Answer one command with exactly one reply; gives the code if it was refused."""
        given = frame.get("id")
        command_id = given if isinstance(given, str) and 1 <= len(given) <= 256 else None
        try:
            handler = self._commands.get(kind)
            if handler is None:
                raise RequestError(f"This server does not know {kind[:80]}.", code="unknown_command", param="type")
            if not self.said_hello and kind not in _BEFORE_HELLO:
                raise RequestError("Say antiphon:hello first.", code="hello_required")
            reply = await handler(_parse(frame))
        except AntiphonError as error:
            return self._refuse(command_id, error)
        except Exception:
            log.exception("command_crashed", command=kind, connection_id=self._connection.id)
            return self._refuse(command_id, AntiphonError("The server could not carry out this command."))
        if reply is not None:
            send_json(self._socket, reply)
        return None

    @property
    def said_hello(self) -> bool:
        return self._connection.said_hello

    def uses_lane(self, lane: str) -> bool:
        return self._attachments.uses_lane(lane)

    def lane_of(self, response_id: str) -> str | None:
        """The lane of the attachment to this run, if there is one."""
        return self._attachments.lane_of(response_id)

    def deliveries(self) -> list[Attachment]:
        return self._attachments.deliveries()

    def wake(self) -> None:
        """The socket has room again, or is gone."""
        for attachment in self.deliveries():
            attachment.wake()
        self._feeds.wake()

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

    def watch(self, run: Followed, *, creator: bool = False) -> None:
        """Push this run's state from now on (once, however many ways it is attached). creator: it began here."""
        self.presence.join(run, creator=creator)
        count = self._watched.get(run.id, 0)
        self._watched[run.id] = count + 1
        if count == 0:
            self._engine.registry.listen(run.id, self._push_state)
            self._push_state(run.state)

    def unwatch(self, run: Followed) -> None:
        """Stop pushing, once what is happening now has been told: the last state belongs to the watcher too."""
        self.presence.leave(run)
        asyncio.get_running_loop().call_soon(self._unwatch, run)

    def _unwatch(self, run: Followed) -> None:
        count = self._watched.pop(run.id, 0) - 1
        if count > 0:
            self._watched[run.id] = count
        else:
            self._engine.registry.unlisten(run.id, self._push_state)

    def close(self) -> None:
        """The connection is gone."""
        self._feeds.close()
        self._conversations.close()
        self._attachments.close()
        self.presence.close()
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
        if command.token is not None:
            await self._refresh(command.token)
        self._connection.said_hello = True
        self._connection.instance = command.client.instance_id
        self.presence.hello(command)
        settings, expires_at = self._engine.settings, self._caller.principal.expires_at
        welcome = {
            "type": "antiphon:welcome",
            "id": command.id,
            "server": {"name": "antiphon", "version": __version__},
            "protocol": wire.PROTOCOL_VERSION,
            "connection_id": self._connection.id,
            "max_message_bytes": settings.limits.max_message_bytes,
            "resume_window_s": settings.journal.retention_s,
            "claim_lease_ms": round(settings.timeouts.claim_lease_s * 1000),
            "connection_expires_at": self._opened_at + settings.timeouts.connection_age_s,
            "features": FEATURES,
        }
        return welcome | ({"token_expires_at": expires_at} if expires_at is not None else {})

    async def _auth(self, command: wire.Auth) -> dict[str, Any]:
        await self._refresh(command.token, command.ticket)
        return accepted(command.id, self._caller.principal)

    async def _refresh(self, token: str | None, ticket: str | None = None) -> None:
        await self._caller.refresh(token=token, ticket=ticket)
        self.presence.changed()
        self._feeds.access_changed()

    async def _ping(self, command: wire.Ping) -> dict[str, Any]:
        return {"type": "antiphon:pong", "id": command.id}

    async def _cancel(self, command: wire.Cancel) -> dict[str, Any]:
        result = await self._engine.reach.cancel(command.response_id, self._caller.principal, command.reason)
        return {"type": "antiphon:ok", "id": command.id, "result": result}

    async def _detach(self, command: wire.Detach) -> dict[str, Any]:
        if command.conversation_id is not None:
            self._conversations.detach(command.conversation_id)
            return {"type": "antiphon:ok", "id": command.id}
        lane = self._attachments.lane_of(command.response_id or "")
        if lane is None:
            raise RequestError("This connection is not attached to that response.", code="not_attached")
        self._attachments.drop(lane)
        return {"type": "antiphon:ok", "id": command.id}

    async def _attach(self, command: wire.Attach) -> dict[str, Any] | None:
        if command.conversation_id is not None:
            await self._conversations.attach(command.id, command.conversation_id)
            return None
        response_id = command.response_id or ""
        source = await self._engine.directory.source(response_id, self._caller.principal)
        plan = await self._engine.directory.plan(source, command.after, command.epoch)
        lane = self._attachments.choose_lane(command.stream_id, response_id)
        run = source.run
        if run is None:
            self._answer_attach(command, lane, source, plan, source.state)
            return None
        # Now, so that the state in the answer knows this client already, and the owner that somebody listens.
        self.presence.join(run)
        self._engine.company.listened(run)
        try:
            told = await self._engine.company.said(run.id)
            # Meanwhile the log may have been cut short, its owner lost and a new epoch begun, the lane taken.
            plan = await self._engine.directory.plan(source, command.after, command.epoch)
            lane = self._attachments.choose_lane(lane, response_id)
            newest = told is not None and told["revision"] >= run.state.revision
            state = told if told is not None and newest else live_state(run)
            self._answer_attach(command, lane, source, plan, state)
        finally:
            self._engine.company.unlistened(run)
            self.presence.leave(run)
        return None

    def _answer_attach(
        self, command: wire.Attach, lane: str, source: Source, plan: AttachPlan, state: dict[str, Any]
    ) -> None:
        previous = self._attachments.lane_of(source.log.run_id)
        if previous is not None:
            self._attachments.drop(previous)
        reply = {"type": "antiphon:attached", "id": command.id, **attached_fields(lane, source, plan)}
        send_json(self._socket, reply | {"state": state})
        self._attachments.open(lane, source, plan)
        if self._engine.tracing is not None:
            self._engine.tracing.attached(source.log.run_id, "websocket", plan.mode, command.traceparent)

    def _dropped(self, run: Followed) -> None:
        self.unwatch(run)
        self.delivered(run.id)

    def _push_state(self, state: RunState) -> None:
        if self.said_hello:
            frame = {"type": "antiphon:run", "response_id": state.response_id, "state": state.row()}
            send_json(self._socket, frame)


def _parse(frame: dict[str, Any]) -> wire.AnyCommand:
    try:
        return wire.extension_command.validate_python(frame)
    except ValidationError as error:
        raise refusal(error, frame, code="invalid_command") from error
