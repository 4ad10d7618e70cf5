"""Reads what other nodes sent to this one, each message once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from antiphon.bus.redis import keys
from antiphon.bus.redis.connection import TROUBLE, Connections
from antiphon.bus.redis.pool import BusConnection
from antiphon.bus.tasks import end_tasks

log = structlog.get_logger(__name__)

BLOCK_S = 2.0
"""How long one read waits for the first message; then the connection has shown that it lives."""
READ_MESSAGES = 16
SENDERS_REMEMBERED = 4096
RETRY_MAX_S = 1.0


@dataclass(slots=True)
class _Sender:
    """last: highest number taken from it. pieces: of a message that is not complete."""

    last: int = 0
    pieces: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Received:
    """type: `ask`, `tell`, `answer` or `error`. id: of the question it is, or answers."""

    sender: str
    type: str
    id: int
    kind: str
    payload: bytes


class Inbox:
    """deliver: called with each message, once, in the order its sender sent them."""

    def __init__(
        self, connections: Connections, node: str, timeout_s: float, deliver: Callable[[Received], None]
    ) -> None:
        self._connections = connections
        self._key = keys.node_inbox(node)
        self._timeout_s = timeout_s
        self._deliver = deliver
        self._senders: OrderedDict[str, _Sender] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self.healthy = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._read_forever(), name="bus inbox")

    async def stop(self) -> None:
        await end_tasks([self._task])

    def forget(self, sender: str) -> None:
        """Nothing more comes from this node."""
        self._senders.pop(sender, None)

    async def _read_forever(self) -> None:
        failures = 0
        while True:
            connection = self._connections.dedicated(BLOCK_S + self._timeout_s)
            began = asyncio.get_running_loop().time()
            try:
                await self._read(connection)
            except TROUBLE as error:
                lasted_s = asyncio.get_running_loop().time() - began
                failures = 1 if lasted_s > RETRY_MAX_S else failures + 1
                log.log(30 if failures == 1 else 10, "messages of other nodes are not read now", error=str(error))
            except Exception:  # one message that cannot be taken must not be the last; read again, it is left out
                failures += 1
                log.exception("a message of another node was not taken")
            finally:
                self.healthy = False
                with contextlib.suppress(*TROUBLE):
                    await connection.disconnect(nowait=True)
            await asyncio.sleep(min(0.02 * 2**failures, RETRY_MAX_S) * random.uniform(0.5, 1.0))

    async def _read(self, connection: BusConnection) -> None:
        """Take what is there, delete it, and wait for more.

        The stream is always read from its beginning: what was taken is deleted, so that no position is kept that a
        Redis with other data, or another clock, could be behind of. What comes twice has a number seen before.
        """
        await connection.open()
        taken: list[bytes] = []
        read = ("XREAD", "COUNT", READ_MESSAGES, "BLOCK", int(BLOCK_S * 1000), "STREAMS", self._key, "0")
        while True:
            commands: list[tuple[Any, ...]] = [("XDEL", self._key, *taken), read] if taken else [read]
            await connection.send_packed_command(connection.pack_commands(commands))
            replies = [await connection.read_response() for _ in commands]
            self.healthy = True
            entries = replies[-1][0][1] if replies[-1] else []
            taken = [entry_id for entry_id, _ in entries]
            for _, fields in entries:
                self._take(fields)

    def _take(self, fields: list[bytes]) -> None:
        try:
            named = dict(zip(fields[::2], fields[1::2], strict=True))
            number, piece, pieces = (int(named[name]) for name in (b"nr", b"piece", b"pieces"))
            received = Received(
                sender=named[b"from"].decode(),
                type=named[b"type"].decode(),
                id=int(named[b"id"]),
                kind=named[b"kind"].decode(),
                payload=named[b"data"],
            )
        except (KeyError, ValueError):
            log.warning("a message to this node has another shape; it is dropped")
            return
        sender = self._senders.setdefault(received.sender, _Sender())
        self._senders.move_to_end(received.sender)
        while len(self._senders) > SENDERS_REMEMBERED:
            self._senders.popitem(last=False)
        if number <= sender.last:
            return
        sender.last = number
        if pieces > 1:
            payload = self._joined(sender, piece, pieces, received.payload)
            if payload is None:
                return
            received = replace(received, payload=payload)
        self._deliver(received)

    @staticmethod
    def _joined(sender: _Sender, piece: int, pieces: int, data: bytes) -> bytes | None:
        """The whole payload with its last piece. A message of which a piece is missing is dropped."""
        if piece == 0:
            sender.pieces = []
        if len(sender.pieces) != piece:
            return None
        sender.pieces.append(data)
        if len(sender.pieces) < pieces:
            return None
        whole, sender.pieces = b"".join(sender.pieces), []
        return whole
