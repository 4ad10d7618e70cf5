"""Attaching to a conversation: each of its runs comes on a lane of its own (PROTOCOL 10.8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import structlog

from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.directory import live_state
from antiphon.runs.engine import Engine
from antiphon.runs.named_conversations import unknown
from antiphon.runs.run import Followed
from antiphon.session.attachments import Attachments
from antiphon.session.caller import Caller
from antiphon.session.socket import Socket, send_json

log = structlog.get_logger(__name__)


class Conversations:
    """The conversations one connection is attached to."""

    def __init__(self, engine: Engine, caller: Caller, socket: Socket, attachments: Attachments) -> None:
        self._engine = engine
        self._caller = caller
        self._socket = socket
        self._attachments = attachments
        self._attached: set[str] = set()
        self._heard: list[str] | None = None
        """Runs that began while an attach is being answered, None outside of one."""
        self._waiting: deque[str] = deque()
        """Runs that began while this connection held all the attachments it may."""
        self._filling = False
        self._tasks: set[asyncio.Task[None]] = set()
        attachments.hooks.freed = self._join_waiting

    async def attach(self, command_id: str, conversation_id: str) -> None:
        """Answer with the conversation's runs, then push them. Raises RequestError `conversation_not_found`,
        `too_many_attachments`; StorageError."""
        self._heard = []
        try:
            await self._engine.conversations.listen(conversation_id, self._begun)
            await self._answer(command_id, conversation_id)
        except BaseException:
            if conversation_id not in self._attached:
                self._engine.conversations.unlisten(conversation_id, self._begun)
            raise
        finally:
            heard, self._heard = self._heard, None
            for response_id in heard:
                self._begun(response_id)

    async def _answer(self, command_id: str, conversation_id: str) -> None:
        runs, newest = await self._runs(conversation_id)
        named, principal = self._engine.named_conversations, self._caller.principal
        if not runs and newest is None and not await named.exists(conversation_id, principal):
            raise unknown(conversation_id)
        ready = [await self._attachments.prepare(run) for run in runs]
        new = [one for one in ready if self._attachments.lane_of(one.source.log.run_id) is None]
        if len(new) > self._attachments.free:
            raise self._attachments.too_many()
        rows = [live_state(run) for run in runs]
        if newest is not None:
            rows.append(newest)
        reply = {"type": "antiphon:attached", "id": command_id, "conversation_id": conversation_id, "runs": rows}
        send_json(self._socket, reply)
        self._attached.add(conversation_id)
        for one in new:
            self._attachments.push(one, conversation_id)

    async def _runs(self, conversation_id: str) -> tuple[list[Followed], dict[str, Any] | None]:
        """Those that go on, and the newest one that has ended."""
        directory = self._engine.directory
        runs: list[Followed] = []
        newest, seen = None, True
        while seen and not runs and newest is None:  # again only if one ended while it was read
            seen = bool(await directory.live_of_conversation(conversation_id, self._caller.principal))
            newest = await directory.newest_ended(conversation_id, self._caller.principal)
            runs = await directory.live_of_conversation(conversation_id, self._caller.principal)
        return runs, newest

    def detach(self, conversation_id: str) -> None:
        """No more of its runs. Raises RequestError `not_attached`."""
        if conversation_id not in self._attached:
            raise RequestError("This connection is not attached to that conversation.", code="not_attached")
        self._attached.remove(conversation_id)
        self._engine.conversations.unlisten(conversation_id, self._begun)
        self._attachments.drop_conversation(conversation_id)

    def close(self) -> None:
        """The connection is gone."""
        for conversation_id in self._attached:
            self._engine.conversations.unlisten(conversation_id, self._begun)
        for task in self._tasks:
            task.cancel()
        self._attached.clear()
        self._waiting.clear()

    def _begun(self, response_id: str) -> None:
        if self._heard is not None:
            self._heard.append(response_id)
        elif not self._attachments.expects(response_id):
            self._in_task(self._join(response_id))

    async def _join(self, response_id: str) -> None:
        try:
            run = await self._engine.directory.find(response_id, self._caller.check())
            ready = await self._attachments.prepare(run) if run is not None else None
        except AntiphonError as error:
            log.warning("run_not_joined", response_id=response_id, error=str(error))
            return
        if run is None or ready is None or run.state.conversation_id not in self._attached:
            return
        # Asked again: of another node's run it may only now be known that it follows one that was steered.
        if self._attachments.lane_of(response_id) is not None or self._attachments.expects(response_id):
            return
        if self._attachments.free > 0:
            self._attachments.push(ready, run.state.conversation_id)
        else:
            self._waiting.append(response_id)

    def _join_waiting(self) -> None:
        if self._waiting and not self._filling:
            self._filling = True
            self._in_task(self._fill())

    async def _fill(self) -> None:
        """Attach to those that waited, as far as there are places."""
        try:
            while self._waiting and self._attachments.free > 0:
                await self._join(self._waiting.popleft())
        finally:
            self._filling = False

    def _in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
