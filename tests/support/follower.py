"""A client as PROTOCOL 6.4 wants it: it keeps a cursor, comes back to any node, and starts again at a fork.

    follower = Follower(cluster.urls)
    run_id = await follower.create("antiphon/echo", input="a b c")     # or Follower(cluster.urls, run_id)
    events = await follower.follow()                                   # up to the terminal

Whatever it is shown is checked as it comes: no number missing, none twice, nothing changed within an epoch,
nothing after the terminal. A broken promise is a GapError.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from tests.support.gap_checker import CheckedRun, check_run
from tests.support.gap_items import GapError
from tests.support.ws_client import TERMINALS, Event, SocketEnded, WsClient, ws_client

LANE = "followed"
COME_BACK_S = 0.05
UNKNOWN_FOR_S = 5.0
"""So long a run that was announced may be unknown to a node that was never asked for it."""


class Unknown(AssertionError):
    """The run does not exist anywhere."""


class Follower:
    """urls: WebSocket URLs of the nodes to try, the preferred one first. patience_s: bounds the whole of `follow`.

    log: the events as this client has them now. epoch: of its cursor. forks: where it was told to read again.
    expired: how often what it still had to read was gone. connections: how often it connected. refusals: codes of
    the answers that made it try again. shown: every numbered event that ever came, with the epoch it came in.
    """

    def __init__(
        self, urls: Callable[[], Sequence[str]], run_id: str | None = None, *, patience_s: float = 30.0
    ) -> None:
        self._urls = urls
        self._patience_s = patience_s
        self.run_id = run_id
        self.log: list[Event] = []
        self.epoch: str | None = None
        self.forks: list[int] = []
        self.expired = 0
        self.connections = 0
        self.refusals: list[str] = []
        self.shown: list[tuple[str | None, Event]] = []
        self.client: WsClient | None = None
        self.grew = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()
        self._reading = ""
        """The lane this client reads now; empty while it has none."""
        self._asked: set[str] = set()
        """Calls whose answers were sent on this connection."""
        self._answered: set[str] = set()
        self._told: str | None = None
        """The epoch of the events that come next; the cursor takes it over with the first of them (6.4.6)."""
        self._known: dict[tuple[str | None, int], str] = {}

    @property
    def ended(self) -> bool:
        return bool(self.log) and self.log[-1]["type"] in TERMINALS

    @property
    def last(self) -> int:
        """The number of its cursor, -1 before the first event."""
        return self.log[-1]["sequence_number"] if self.log else -1

    # What a test asks for

    async def create(self, model: str = "antiphon/echo", input: Any = "hello", **fields: Any) -> str:
        """Create a run and wait for its first event; tried again under one idempotency key. Gives the id."""
        fields.setdefault("idempotency_key", uuid.uuid4().hex)
        try:
            async with asyncio.timeout(self._patience_s):
                while not self.log:
                    await self._ask(model, input, fields)
        except TimeoutError:
            raise AssertionError(f"not created within {self._patience_s} s: {self!r}") from None
        assert self.run_id is not None
        return self.run_id

    async def follow(self, *, until: Callable[[Event], bool] | None = None) -> list[Event]:
        """Read to the terminal, or to the first event that is wanted; the log so far."""
        wanted = until or (lambda event: event["type"] in TERMINALS)
        try:
            async with asyncio.timeout(self._patience_s):
                while not (self.ended or (self.log and wanted(self.log[-1]))):
                    await self.step()
        except TimeoutError:
            raise AssertionError(f"not followed within {self._patience_s} s: {self!r}") from None
        return self.log

    def checked(self) -> CheckedRun:
        """The run, held against every promise of the wire."""
        first = self.log[0]["sequence_number"] if self.log else 0
        # Its lanes differ from connection to connection, and nothing else does.
        return check_run([Event(without_lane(event)) for event in self.log], start=first)

    async def close(self) -> None:
        await self._leave()

    async def __aenter__(self) -> Follower:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        tail = [event.raw[:160] for event in self.log[-3:]]
        return (
            f"<Follower {self.run_id} last={self.last} epoch={self.epoch} forks={self.forks} "
            f"connections={self.connections} refusals={self.refusals[-5:]} reading={self._reading!r} tail={tail}>"
        )

    async def step(self) -> None:
        """One frame, or one attempt to come back."""
        try:
            client = await self._connected()
            if not self._reading:
                await self._attach(client)
            else:
                await self._read(client)
        except (SocketEnded, _Again):
            await self._leave()

    async def answer(self, call_id: str, said: str) -> None:
        """Answer a held call, again after each loss of the connection, until it is taken."""
        item = {
            "type": "function_call_output",
            "call_id": call_id,
            "output": said,
            "antiphon": {"result_id": said},
        }
        async with asyncio.timeout(self._patience_s):
            while call_id not in self._answered:
                if self.client is not None and call_id not in self._asked:
                    self._asked.add(call_id)
                    await self.client.send(
                        {"type": "response.inject", "response_id": self.run_id, "input": [item]}
                    )
                await self.step()

    async def _ask(self, model: str, input: Any, fields: dict[str, Any]) -> None:
        try:
            client = await self._connected()
            await client.create(model, input, stream_id=LANE, **fields)
            self._reading = LANE
            while not self.log:
                await self._read(client)
        except (SocketEnded, _Again):
            await self._leave()

    # Connections

    async def _connected(self) -> WsClient:
        for n in itertools.count():
            if self.client is not None:
                return self.client
            urls = self._urls()
            if urls:
                url = urls[(n + (self.connections > 0) * self.connections) % len(urls)]
                try:
                    client = await self._stack.enter_async_context(ws_client(url))
                    self.connections += 1
                    await client.hello()
                    self.client = client
                    return client
                except (OSError, InvalidMessage, InvalidStatus, ConnectionClosed, SocketEnded, TimeoutError):
                    await self._leave()
            await asyncio.sleep(COME_BACK_S)
        raise AssertionError("not reached")

    async def _leave(self) -> None:
        self.client, self._reading = None, ""
        self._asked.clear()
        await self._stack.aclose()

    async def _attach(self, client: WsClient) -> None:
        cursor: dict[str, Any] = {"after": self.last if self.log else "start"}
        if self.log and self.epoch is not None:
            cursor["epoch"] = self.epoch
        answer = await client.command(
            "antiphon:attach", response_id=self.run_id, stream_id=LANE + str(len(client.received)), **cursor
        )
        while (frame := await client.recv(self._patience_s)) is not answer:
            self._note(frame)
        if answer["type"] == "antiphon:error":
            await self._refused(answer)
            return
        if answer["mode"] == "snapshot":
            self.expired += 1
            self.log = []
        if answer["mode"] == "ended" and not self.ended:
            raise GapError(f"`ended` at {self.last} of a log without a terminal: {answer.raw[:500]}")
        self._told = answer["epoch"]
        self._reading = answer["stream_id"]

    async def _refused(self, answer: Event) -> None:
        self.refusals.append(answer["code"])
        if answer["code"] == "epoch_changed":
            self._forked(answer["epoch"], answer["fork"])
        elif answer["code"] == "cursor_in_future":
            raise GapError(f"what this client was shown in its epoch is no more: {answer.raw} {self!r}")
        elif answer["code"] == "response_not_found":
            if self.refusals.count("response_not_found") * COME_BACK_S > UNKNOWN_FOR_S:
                raise Unknown(f"{self!r}")
            await asyncio.sleep(COME_BACK_S)
            raise _Again
        else:
            assert answer["retryable"], f"refused for good: {answer.raw}"
            await asyncio.sleep(COME_BACK_S)
            raise _Again

    def _forked(self, epoch: str, fork: int) -> None:
        if epoch == self.epoch:
            raise GapError(f"sent back to {fork} within epoch {epoch}")
        self.forks.append(fork)
        self.epoch = epoch
        self.log = [event for event in self.log if event["sequence_number"] < fork]

    # Events

    async def _read(self, client: WsClient) -> None:
        frame = await client.recv(self._patience_s)
        kind = frame["type"]
        self._note(frame)
        if kind.startswith("response.inject."):
            await self._settle(frame)
            return
        if frame.get("stream_id") != self._reading or "id" in frame:
            return
        if kind == "antiphon:detached":
            self._reading = ""
        elif kind == "error":
            assert frame.get("error", {}).get("code") and frame["status"] in (409, 429, 500, 502, 503), frame.raw
            self.refusals.append(frame["error"]["code"])
            await asyncio.sleep(COME_BACK_S)
            raise _Again
        elif not kind.startswith(("antiphon:", "keepalive", "response.steer.")):
            self._take(frame)

    async def _settle(self, frame: Event) -> None:
        """What became of an answer: taken, or to be given again where somebody has the run."""
        if frame["type"] == "response.inject.created":
            self._answered |= self._asked
            return
        self.refusals.append(frame["error"]["code"])
        if frame["error"]["code"] == "already_resolved":
            self._answered |= self._asked
            return
        await asyncio.sleep(COME_BACK_S)
        self._asked.clear()

    def _note(self, frame: Event) -> None:
        if frame["type"] == "antiphon:run" and frame["response_id"] == self.run_id:
            self._told = frame["state"]["epoch"]

    def _take(self, event: Event) -> None:
        if self.ended:
            raise GapError(f"{event.raw[:300]} came after the terminal")
        number = event["sequence_number"]
        if self.log and number != self.last + 1:
            raise GapError(f"{number} came after {self.last}: {event.raw[:300]} {self!r}")
        if not self.log and number != 0 and not self.expired:
            raise GapError(f"the first event has number {number}: {event.raw[:300]}")
        if number == 0:
            assert self.run_id in (None, event["response"]["id"]), "another run under the same key"
            self.run_id = event["response"]["id"]
        self.epoch = self._told
        raw = without_lane(event)
        before = self._known.setdefault((self.epoch, number), raw)
        if self.epoch is not None and before != raw:
            raise GapError(f"number {number} changed within epoch {self.epoch}:\n  {before}\n  {raw}")
        self.shown.append((self.epoch, event))
        self.log.append(event)
        self.grew.set()


class _Again(Exception):
    """Come back, to another node if there is one."""


def without_lane(event: Event) -> str:
    """An event as every reader gets it."""
    lane = event.get("stream_id")
    if lane is None:
        return event.raw
    return event.raw.removesuffix(f',"stream_id":"{lane}"}}') + "}"


async def read_whole(url: str, run_id: str, *, patience_s: float = 40.0) -> list[str]:
    """The log of a run from one node, from its first event to its terminal, without lanes."""
    async with Follower(lambda: [url], run_id, patience_s=patience_s) as reader:
        return [without_lane(event) for event in await reader.follow()]


@contextlib.asynccontextmanager
async def following(
    urls: Callable[[], Sequence[str]], run_id: str, **options: Any
) -> AsyncIterator[asyncio.Task[list[Event]]]:
    """A follower at work in a task of its own."""
    async with Follower(urls, run_id, **options) as follower:
        task = asyncio.create_task(follower.follow())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
