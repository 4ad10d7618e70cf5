"""Sends messages to the inboxes of other nodes, in order, and again where it is not known whether they arrived."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from redis.asyncio import Redis

from antiphon.bus.redis import keys
from antiphon.bus.redis.connection import answering, cause_of
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError

log = structlog.get_logger(__name__)

MAX_WAITING_BYTES = 256 * 1024 * 1024
"""Payloads that wait to be sent; four of the largest ones. Beyond it a message is refused."""
PIECE_BYTES = 1024 * 1024
"""A larger payload goes in several entries: no exchange with Redis is so large that it runs into its timeout, and
who reads never has more than a few of them in memory."""
BATCH_BYTES = 4 * PIECE_BYTES
BATCH_PIECES = 256
INBOX_ENTRIES = 10_000
"""Beyond it the oldest are dropped: their node has not read for long, and who asked is told by a timeout."""
INBOX_TTL_MS = 300_000
RETRY_MAX_S = 1.0

_SEND = """
if ARGV[1] == '1' and redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'from', ARGV[4], 'nr', ARGV[5], 'piece', ARGV[6],
  'pieces', ARGV[7], 'type', ARGV[8], 'id', ARGV[9], 'kind', ARGV[10], 'data', ARGV[11])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
"""KEYS: inbox and lease of the node. ARGV[1]: whether the lease is asked for."""


@dataclass(slots=True)
class Letter:
    """One message on its way. type: `ask`, `tell`, `answer` or `error`. id: of the question it is, or answers.

    until: monotonic time of the loop after which nobody wants it any more. refused: some of it was not taken.
    """

    to: str
    type: str
    id: int
    kind: str
    payload: bytes
    until: float
    refused: bool = False

    @property
    def wants_live_node(self) -> bool:
        """An answer goes to a node that waits, even if it is just about to get its lease back."""
        return self.type in ("ask", "tell")

    @property
    def pieces(self) -> int:
        """In how many entries it goes."""
        return max(-(-len(self.payload) // PIECE_BYTES), 1)


@dataclass(frozen=True, slots=True)
class _Piece:
    """number: rises with each entry of this node; the receiver drops what it has seen."""

    letter: Letter
    index: int
    number: int

    @property
    def data(self) -> bytes:
        return self.letter.payload[self.index * PIECE_BYTES : (self.index + 1) * PIECE_BYTES]

    @property
    def is_last(self) -> bool:
        return self.index == self.letter.pieces - 1


class Outbox:
    """on_unreachable: called with a letter that did not arrive because its node has no lease."""

    def __init__(
        self, commands: Redis, node: str, timeout_s: float, on_unreachable: Callable[[Letter], None]
    ) -> None:
        self._commands = commands
        self._node = node
        self._timeout_s = timeout_s
        self._on_unreachable = on_unreachable
        self._waiting: deque[_Piece] = deque()
        self._waiting_bytes = 0
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._numbers = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._send_forever(), name="bus outbox")

    async def stop(self) -> None:
        await end_tasks([self._task])

    def put(self, letter: Letter) -> None:
        """Send it after all that were put before. Raises BusError if too much waits already."""
        if self._waiting and self._waiting_bytes + len(letter.payload) > MAX_WAITING_BYTES:
            raise BusError("Too many messages between nodes are waiting to be sent.")
        letter.refused = False
        self._waiting.extend(_Piece(letter, index, next(self._numbers)) for index in range(letter.pieces))
        self._waiting_bytes += len(letter.payload)
        self._filled.set()
        self._emptied.clear()

    async def flush(self, within_s: float) -> None:
        """Wait until everything is sent, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._emptied.wait()

    async def _send_forever(self) -> None:
        failures = 0
        while True:
            await self._filled.wait()
            if failures:
                self._drop_unwanted()
            batch = self._batch()
            try:
                arrived = await self._send(batch) if batch else []
            except BusError as error:
                # It may have arrived: the same pieces go again, with their numbers, in their order.
                failures += 1
                log.log(30 if failures == 1 else 10, "messages are not sent yet", error=cause_of(error))
                await asyncio.sleep(min(0.02 * 2**failures, RETRY_MAX_S) * random.uniform(0.5, 1.0))
                continue
            except Exception:
                failures += 1
                log.exception("messages are not sent yet")
                await asyncio.sleep(RETRY_MAX_S)
                continue
            failures = 0
            for is_there in arrived:
                self._sent(is_there)
            if not self._waiting:
                self._filled.clear()
                self._emptied.set()

    def _drop_unwanted(self) -> None:
        """What nobody waits for any more is not sent."""
        now = asyncio.get_running_loop().time()
        self._waiting = deque(piece for piece in self._waiting if piece.letter.until > now)
        self._waiting_bytes = sum(len(piece.letter.payload) for piece in self._waiting if piece.is_last)

    def _batch(self) -> list[_Piece]:
        batch: list[_Piece] = []
        size_bytes = 0
        for piece in itertools.islice(self._waiting, BATCH_PIECES):
            size_bytes += min(len(piece.letter.payload), PIECE_BYTES)
            if batch and size_bytes > BATCH_BYTES:
                break
            batch.append(piece)
        return batch

    def _sent(self, is_there: bool) -> None:
        """The first piece that waits is sent; a letter of which one was refused is of no use to its node."""
        piece = self._waiting.popleft()
        letter = piece.letter
        letter.refused = letter.refused or not is_there
        if piece.is_last:
            self._waiting_bytes -= len(letter.payload)
            if letter.refused:
                self._on_unreachable(letter)

    async def _send(self, batch: list[_Piece]) -> list[bool]:
        async with answering(self._timeout_s):
            pipeline = self._commands.pipeline(transaction=False)
            for piece in batch:
                letter = piece.letter
                pipeline.eval(
                    _SEND,
                    2,
                    keys.node_inbox(letter.to),
                    keys.node_lease(letter.to),
                    int(letter.wants_live_node),
                    INBOX_ENTRIES,
                    INBOX_TTL_MS,
                    self._node,
                    piece.number,
                    piece.index,
                    letter.pieces,
                    letter.type,
                    letter.id,
                    letter.kind,
                    piece.data,
                )
            return [bool(reply) for reply in await pipeline.execute()]
