"""Attaching to a conversation: each of its runs comes on a lane of its own (PROTOCOL 10.8)."""

from __future__ import annotations

from collections import deque

from antiphon.core.principal import Principal
from antiphon.core.run_state import RunState
from antiphon.errors import RequestError
from antiphon.runs.directory import live_state
from antiphon.runs.engine import Engine
from antiphon.runs.run import Run
from antiphon.session.attachments import Attachments
from antiphon.session.socket import Socket, send_json


class Conversations:
    """The conversations one connection is attached to."""

    def __init__(self, engine: Engine, principal: Principal, socket: Socket, attachments: Attachments) -> None:
        self._engine = engine
        self._principal = principal
        self._socket = socket
        self._attachments = attachments
        self._attached: set[str] = set()
        self._waiting: deque[str] = deque()
        """Runs that began while this connection held all the attachments it may."""
        attachments.hooks.freed = self._join_waiting

    async def attach(self, command_id: str, conversation_id: str) -> None:
        """Answer with the conversation's runs, then push them. Raises RequestError `conversation_not_found`,
        `too_many_attachments`."""
        directory = self._engine.directory
        runs: list[Run] = []
        newest, seen = None, True
        while seen and not runs and newest is None:  # again only if one ended while it was read
            seen = bool(directory.live_of_conversation(conversation_id, self._principal))
            newest = await directory.newest_ended(conversation_id, self._principal)
            runs = directory.live_of_conversation(conversation_id, self._principal)
        if not runs and newest is None:
            raise RequestError(
                f"Conversation with id '{conversation_id[:80]}' not found.",
                code="conversation_not_found",
                param="conversation_id",
            )
        new = [run for run in runs if self._attachments.lane_of(run.id) is None]
        if len(new) > self._attachments.free:
            raise self._attachments.too_many()
        rows = [live_state(run) for run in runs]
        if newest is not None:
            rows.append(newest)
        reply = {"type": "antiphon:attached", "id": command_id, "conversation_id": conversation_id, "runs": rows}
        send_json(self._socket, reply)
        self._attached.add(conversation_id)
        self._engine.registry.listen_conversation(conversation_id, self._begun)
        for run in new:
            self._attachments.push(run, conversation_id)

    def detach(self, conversation_id: str) -> None:
        """No more of its runs. Raises RequestError `not_attached`."""
        if conversation_id not in self._attached:
            raise RequestError("This connection is not attached to that conversation.", code="not_attached")
        self._attached.remove(conversation_id)
        self._engine.registry.unlisten_conversation(conversation_id, self._begun)
        self._attachments.drop_conversation(conversation_id)

    def close(self) -> None:
        """The connection is gone."""
        for conversation_id in self._attached:
            self._engine.registry.unlisten_conversation(conversation_id, self._begun)
        self._attached.clear()
        self._waiting.clear()

    def _begun(self, state: RunState) -> None:
        if not self._attachments.expects(state.response_id):
            self._join(state.response_id)

    def _join(self, response_id: str) -> None:
        run = self._engine.directory.live(response_id, self._principal)
        if run is None or run.state.conversation_id not in self._attached:
            return
        if self._attachments.lane_of(response_id) is not None:
            return
        if self._attachments.free > 0:
            self._attachments.push(run, run.state.conversation_id)
        else:
            self._waiting.append(response_id)

    def _join_waiting(self) -> None:
        while self._waiting and self._attachments.free > 0:
            self._join(self._waiting.popleft())
