"""Which runs begin in a conversation, on whatever node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from antiphon.errors import StorageError
from antiphon.journal.contract import Journal
from antiphon.ports import Bus
from antiphon.runs.run import Run
from antiphon.store.responses import ResponseReader

log = structlog.get_logger(__name__)

Begun = Callable[[str], None]
"""Called with the id of a run that begins; perhaps more than once."""


class ConversationNews:
    """Tells who is attached to a conversation of each of its runs as it begins."""

    def __init__(self, journal: Journal, bus: Bus, reader: ResponseReader) -> None:
        self._journal = journal
        self._bus = bus
        self._reader = reader
        self._listeners: dict[str, dict[Begun, Callable[[bytes], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, conversation_id: str, listener: Begun) -> None:
        """Hear of every run of this conversation that begins from now on. Raises BusError."""

        def heard(payload: bytes) -> None:
            node, _, run_id = payload.decode().partition(" ")
            if node != self._bus.node:
                listener(run_id)

        listeners = self._listeners.setdefault(conversation_id, {})
        if listener not in listeners:
            listeners[listener] = heard
            if not self._bus.alone:
                await self._bus.subscribe(_channel(conversation_id), heard)

    def unlisten(self, conversation_id: str, listener: Begun) -> None:
        listeners = self._listeners.get(conversation_id, {})
        heard = listeners.pop(listener, None)
        if not listeners:
            self._listeners.pop(conversation_id, None)
        if heard is not None and not self._bus.alone:
            self._in_task(self._unsubscribe(_channel(conversation_id), heard))

    async def look_again(self) -> None:
        """News may have been missed: tell of every run that goes on. Raises StorageError."""
        for conversation_id in list(self._listeners):
            for run_id in await self._reader.unfinished_of_conversation(conversation_id):
                for listener in list(self._listeners.get(conversation_id, ())):
                    listener(run_id)

    def look_again_soon(self) -> None:
        """The same, in its own time."""
        self._in_task(self._look_again())

    async def _look_again(self) -> None:
        try:
            await self.look_again()
        except StorageError as error:
            log.warning("conversations_not_read", error=str(error))

    def began(self, run: Run) -> None:
        """A run of this node begins."""
        for listener in list(self._listeners.get(run.state.conversation_id, ())):
            try:
                listener(run.id)
            except Exception:  # one watcher must not stop the run
                log.exception("conversation_listener_crashed", response_id=run.id)
        # Told once it can be found: who subscribes from then on reads of it in the store.
        payload = f"{self._bus.node} {run.id}".encode()
        self._journal.announce(run.log, _channel(run.state.conversation_id), payload)

    async def _unsubscribe(self, channel: str, heard: Callable[[bytes], None]) -> None:
        try:
            await self._bus.unsubscribe(channel, heard)
        except StorageError:
            log.warning("unsubscribe_failed", channel=channel)

    def _in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _channel(conversation_id: str) -> str:
    return f"antiphon:v1:conversation:{{{conversation_id}}}:begun"
