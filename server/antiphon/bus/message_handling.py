"""Runs the handler for messages of other nodes, and says how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from antiphon.bus.remote_errors import encode_error
from antiphon.bus.tasks import end_tasks
from antiphon.errors import AntiphonError, BusError

log = structlog.get_logger(__name__)

MAX_HANDLERS = 2048
"""Messages that are handled at a time; more are refused, which their senders are told."""

Reply = Callable[[str, bytes], None]
"""(`answer` or `error`, payload)"""


class Handling:
    """on_message: (node it came from, kind, payload) -> answer."""

    def __init__(self) -> None:
        self.on_message: Callable[[str, str, bytes], Awaitable[bytes]] = _refuse
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, sender: str, kind: str, payload: bytes, reply: Reply | None) -> None:
        """Handle a message in a task of its own. Tasks begin in the order of the calls. reply: None for a tell."""
        if len(self._tasks) >= MAX_HANDLERS:
            log.warning("too many messages of other nodes at a time; one is refused", sender=sender, kind=kind)
            if reply is not None:
                reply("error", encode_error(BusError("The node of the run has too much to do.")))
            return
        task = asyncio.create_task(self._handle(sender, kind, payload, reply), name=f"bus message {kind}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Handlers that still run are cancelled."""
        await end_tasks(self._tasks)

    async def _handle(self, sender: str, kind: str, payload: bytes, reply: Reply | None) -> None:
        try:
            answer = await self.on_message(sender, kind, payload)
        except AntiphonError as error:
            if reply is None:
                log.info("a message of another node was refused", sender=sender, kind=kind, error=error.message)
            else:
                reply("error", encode_error(error))
        except Exception:
            log.exception("a message of another node was not handled", sender=sender, kind=kind)
            if reply is not None:
                reply("error", encode_error(AntiphonError("The node of the run failed to handle the request.")))
        else:
            if reply is not None:
                reply("answer", answer)


async def _refuse(sender: str, kind: str, payload: bytes) -> bytes:
    raise BusError("This node takes no messages.")
