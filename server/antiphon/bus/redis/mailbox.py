"""Questions and messages between nodes, over a stream for each node."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from antiphon.bus.message_handling import Handling
from antiphon.bus.redis.connection import Connections
from antiphon.bus.redis.inbox import Inbox, Received
from antiphon.bus.redis.outbox import Letter, Outbox
from antiphon.bus.remote_errors import decode_error
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError, NodeGone

log = structlog.get_logger(__name__)

LOOK_S = 0.5
"""How often the leases of nodes that are waited for are looked at."""
TELL_FOR_S = 30.0
ANSWER_FOR_S = 60.0
"""How long it is tried to send a message that nobody, or somebody elsewhere, waits for."""

FLUSH_S = 1.0
"""For answers that are given already, when the node stops."""


@dataclass(slots=True)
class _Question:
    letter: Letter
    answer: asyncio.Future[bytes]


class Mailbox:
    """gone: which of these nodes are dead for certain; raises BusError."""

    def __init__(
        self,
        connections: Connections,
        node: str,
        timeout_s: float,
        gone: Callable[[frozenset[str]], Awaitable[frozenset[str]]],
    ) -> None:
        self._gone = gone
        self._handling = Handling()
        self._outbox = Outbox(connections.commands, node, timeout_s, self._unreachable)
        self._inbox = Inbox(connections, node, timeout_s, self._deliver)
        self._questions: dict[int, _Question] = {}
        self._ids = itertools.count(1)
        self._look_now = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    @property
    def healthy(self) -> bool:
        return self._inbox.healthy

    def start(self, on_message: Callable[[str, str, bytes], Awaitable[bytes]]) -> None:
        self._handling.on_message = on_message
        self._outbox.start()
        self._inbox.start()
        self._looking = asyncio.create_task(self._look_forever(), name="bus mailbox look")

    async def stop(self) -> None:
        await self._inbox.stop()
        await self._handling.stop()
        await self._outbox.flush(FLUSH_S)
        await self._outbox.stop()
        await end_tasks([self._looking])
        for question in list(self._questions.values()):
            self._fail(question, BusError("This node is leaving the bus."))

    def forget(self, node: str) -> None:
        """Nothing more comes from this node."""
        self._inbox.forget(node)

    async def ask(self, node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
        """See `ports.Bus.ask`."""
        loop = asyncio.get_running_loop()
        letter = Letter(node, "ask", next(self._ids), kind, payload, loop.time() + timeout_s)
        question = _Question(letter, loop.create_future())
        self._questions[letter.id] = question
        try:
            self._outbox.put(letter)
            async with asyncio.timeout(timeout_s):
                return await question.answer
        except TimeoutError:
            raise BusError(f"The node of the run did not answer within {timeout_s:g} seconds.") from None
        finally:
            letter.until = 0.0  # nobody wants it any more: if it still waits, it is not sent
            del self._questions[letter.id]

    def tell(self, node: str, kind: str, payload: bytes) -> None:
        """See `ports.Bus.tell`."""
        self._put(Letter(node, "tell", 0, kind, payload, asyncio.get_running_loop().time() + TELL_FOR_S))

    def _put(self, letter: Letter) -> None:
        try:
            self._outbox.put(letter)
        except BusError as error:
            log.warning("a message to another node is dropped", kind=letter.kind, error=error.message)

    def _deliver(self, received: Received) -> None:
        if received.type in ("answer", "error"):
            question = self._questions.get(received.id)
            if question is not None and not question.answer.done():
                if received.type == "answer":
                    question.answer.set_result(received.payload)
                else:
                    question.answer.set_exception(decode_error(received.payload))
        elif received.type == "tell":
            self._handling.begin(received.sender, received.kind, received.payload, None)
        else:
            self._handling.begin(received.sender, received.kind, received.payload, self._replier(received))

    def _replier(self, asked: Received) -> Callable[[str, bytes], None]:
        def reply(type_: str, payload: bytes) -> None:
            until = asyncio.get_running_loop().time() + ANSWER_FOR_S
            self._put(Letter(asked.sender, type_, asked.id, asked.kind, payload, until))

        return reply

    def _unreachable(self, letter: Letter) -> None:
        """The node has no lease at this moment: dead, or the bus has lost all leases just now."""
        if letter.id in self._questions:
            self._look_now.set()
            asyncio.get_running_loop().call_later(LOOK_S / 5, self._send_again, letter)

    def _send_again(self, letter: Letter) -> None:
        question = self._questions.get(letter.id)
        if question is not None and not question.answer.done():
            self._put(letter)

    async def _look_forever(self) -> None:
        """One look for all nodes that are waited for."""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()
            asked = frozenset(question.letter.to for question in self._questions.values())
            if not asked:
                continue
            try:
                gone = await self._gone(asked)
            except BusError as error:
                log.debug("no look at the nodes that are waited for", error=error.message)
                continue
            except Exception:
                log.exception("looking at the nodes that are waited for failed")
                continue
            for question in list(self._questions.values()):
                if question.letter.to in gone:
                    self._fail(question, NodeGone("The node that had the run is gone; another one takes it over."))

    @staticmethod
    def _fail(question: _Question, error: BusError) -> None:
        if not question.answer.done():
            question.answer.set_exception(error)
