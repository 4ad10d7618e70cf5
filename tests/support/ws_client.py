"""A WebSocket client for tests: every wait is bounded, nothing is lost, nothing sleeps.

One task reads the socket and files each frame: replies to commands by their `id`, everything else by its lane
(`stream_id`, None for the default lane). So a test may wait for one lane while others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

TERMINALS = frozenset({"response.completed", "response.incomplete", "response.failed"})
DEFAULT_WAIT_S = 40.0
"""Bounds what hangs, also on a machine with ten times as much to do as it can."""
CLOSED_WITHIN_S = 10.0


class Event(dict[str, Any]):
    """A frame as a dict, with the text it was parsed from in `raw`."""

    raw: str

    def __init__(self, raw: str) -> None:
        super().__init__(json.loads(raw))
        self.raw = raw


class Refused(AssertionError):
    """An `error` frame came where a run was expected; `event` is the frame."""

    def __init__(self, event: Event) -> None:
        super().__init__(f"the server answered with an error: {event.raw}")
        self.event = event


class SocketEnded(AssertionError):
    """The socket was closed while a frame was awaited."""

    def __init__(self, code: int | None, reason: str, seen: list[str]) -> None:
        super().__init__(f"closed with {code} {reason!r} while waiting; last frames: {seen}")
        self.code = code
        self.reason = reason


class Mailbox:
    """Frames of one lane in order of arrival."""

    def __init__(self) -> None:
        self.frames: deque[Event] = deque()
        self.arrived = asyncio.Event()


class WsClient:
    """One connection. Make it with `async with ws_client(url) as client`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.received: list[Event] = []
        self._lanes: defaultdict[str | None, Mailbox] = defaultdict(Mailbox)
        self._replies: defaultdict[str, Mailbox] = defaultdict(Mailbox)
        self._any = Mailbox()
        self._ids = itertools.count(1)
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._reader = asyncio.create_task(self._read(), name="ws-client-reader")

    # Sending

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send one JSON object as a text frame."""
        await self.send_raw(json.dumps(frame))

    async def send_raw(self, data: str | bytes) -> None:
        """Send a text or binary frame as it is. On a closed socket nothing happens here: the next wait tells."""
        async with asyncio.timeout(DEFAULT_WAIT_S):
            with contextlib.suppress(ConnectionClosed):
                await self.socket.send(data)

    async def create(self, model: str = "antiphon/echo", input: Any = "hello", **fields: Any) -> None:
        """Send a `response.create`."""
        await self.send({"type": "response.create", "model": model, "input": input, **fields})

    # Receiving

    async def recv(self, wait_s: float = DEFAULT_WAIT_S) -> Event:
        """The next frame of any lane, in the order of the socket. Also takes it out of its lane."""
        event = await self._next(self._any, wait_s, "a frame")
        for mailbox in (*self._lanes.values(), *self._replies.values()):
            if mailbox.frames and mailbox.frames[0] is event:
                mailbox.frames.popleft()
        return event

    async def recv_on(self, stream_id: str | None = None, wait_s: float = DEFAULT_WAIT_S) -> Event:
        """The next frame of one lane, replies to commands left out."""
        event = await self._next(self._lanes[stream_id], wait_s, f"a frame on lane {stream_id!r}")
        with contextlib.suppress(ValueError):
            self._any.frames.remove(event)
        return event

    async def recv_until(
        self, wanted: Callable[[Event], bool], *, stream_id: str | None = None, wait_s: float = DEFAULT_WAIT_S
    ) -> list[Event]:
        """Frames of one lane up to and with the first that is wanted."""
        got: list[Event] = []
        try:
            async with asyncio.timeout(wait_s):
                while not got or not wanted(got[-1]):
                    got.append(await self.recv_on(stream_id, wait_s))
        except TimeoutError:
            raise AssertionError(f"not all came within {wait_s} s; so far: {_tail(got)}") from None
        return got

    async def collect_run(self, stream_id: str | None = None, wait_s: float = DEFAULT_WAIT_S) -> list[Event]:
        """The events of the lane's next run, terminal event included. Raises Refused on an `error`.

        Frames of the extension that lie between (`antiphon:caught_up`, ...) are left out.
        """
        events: list[Event] = []
        try:
            async with asyncio.timeout(wait_s):
                while not events or events[-1]["type"] not in TERMINALS:
                    event = await self.recv_on(stream_id, wait_s)
                    if event["type"] == "error":
                        raise Refused(event)
                    if not event["type"].startswith("antiphon:"):
                        events.append(event)
        except TimeoutError:
            raise AssertionError(f"the run did not end within {wait_s} s; so far: {_tail(events)}") from None
        return events

    async def run(self, *args: Any, wait_s: float = DEFAULT_WAIT_S, **fields: Any) -> list[Event]:
        """Send a `response.create` and collect its events on its lane."""
        await self.create(*args, **fields)
        return await self.collect_run(fields.get("stream_id"), wait_s)

    async def recv_error(self, stream_id: str | None = None, wait_s: float = DEFAULT_WAIT_S) -> Event:
        """The next frame of the lane, which must be an `error` in the shape of the socket."""
        event = await self.recv_on(stream_id, wait_s)
        assert event["type"] == "error", f"expected an error, got {event.raw}"
        assert isinstance(event["status"], int), f"the status is no integer: {event.raw}"
        assert {"type", "code", "message", "param"} <= event["error"].keys(), event.raw
        return event

    # The extension

    async def command(self, type: str, wait_s: float = DEFAULT_WAIT_S, **fields: Any) -> Event:
        """Send an `antiphon:` command and wait for its one reply."""
        command_id = f"cmd-{next(self._ids)}"
        await self.send({"type": type, "id": command_id, **fields})
        return await self._next(self._replies[command_id], wait_s, f"the reply to {type}")

    async def hello(self, **fields: Any) -> Event:
        """Say hello; the welcome is the answer."""
        welcome = await self.command(
            "antiphon:hello", **{"protocol": 1, "client": {"name": "test", "version": "0"}, **fields}
        )
        assert welcome["type"] == "antiphon:welcome", welcome.raw
        return welcome

    async def attach(self, response_id: str, **fields: Any) -> Event:
        """Attach to a run; its events then come on the lane the answer names."""
        attached = await self.command("antiphon:attach", response_id=response_id, **fields)
        assert attached["type"] == "antiphon:attached", attached.raw
        return attached

    async def collect_attachment(self, stream_id: str, wait_s: float = DEFAULT_WAIT_S) -> list[Event]:
        """Everything on the lane up to and with `antiphon:detached`."""
        return await self.recv_until(
            lambda event: event["type"] == "antiphon:detached", stream_id=stream_id, wait_s=wait_s
        )

    # The connection

    def stop_reading(self) -> None:
        """Read nothing any more, so that the kernel's buffers fill: a slow reader."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def wait_closed(self, wait_s: float = DEFAULT_WAIT_S) -> tuple[int | None, str]:
        """Wait for the server to close; the code and the reason."""
        try:
            async with asyncio.timeout(wait_s):
                await self._ended.wait()
                await self.socket.wait_closed()
        except TimeoutError:
            raise AssertionError(f"still open after {wait_s} s; last: {_tail(self.received)}") from None
        return self.socket.close_code, self.socket.close_reason or ""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self._may_read.set()
        async with asyncio.timeout(DEFAULT_WAIT_S):
            await self.socket.close(code, reason)

    async def abort(self) -> None:
        """Drop the TCP connection without a close frame."""
        self._may_read.set()
        self.socket.transport.abort()
        await self.wait_closed()

    # Inside

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                data = await self.socket.recv()
                if isinstance(data, bytes):
                    raise AssertionError(f"the server sent a binary frame of {len(data)} bytes")
                self._file(Event(data))
        except ConnectionClosed:
            pass
        except Exception as failure:
            self._failure = failure
        finally:
            self._ended.set()
            for mailbox in (self._any, *self._lanes.values(), *self._replies.values()):
                mailbox.arrived.set()

    def _file(self, event: Event) -> None:
        self.received.append(event)
        command_id = event.get("id") if str(event.get("type")).startswith("antiphon:") else None
        mine = self._lanes[event.get("stream_id")] if command_id is None else self._replies[command_id]
        for mailbox in (mine, self._any):
            mailbox.frames.append(event)
            mailbox.arrived.set()

    async def _next(self, mailbox: Mailbox, wait_s: float, what: str) -> Event:
        try:
            async with asyncio.timeout(wait_s):
                while not mailbox.frames:
                    if self._failure is not None:
                        raise self._failure
                    if self._ended.is_set():
                        code, reason = self.socket.close_code, self.socket.close_reason or ""
                        raise SocketEnded(code, reason, _tail(self.received))
                    mailbox.arrived.clear()
                    await mailbox.arrived.wait()
        except TimeoutError:
            last = _tail(self.received)
            raise AssertionError(f"{what} did not come within {wait_s} s; last: {last}") from None
        return mailbox.frames.popleft()

    async def _stop(self) -> None:
        self._may_read.set()
        if not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSED_WITHIN_S):
                    await self.socket.close()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@contextlib.asynccontextmanager
async def ws_client(
    url: str, *, api_key: str | None = "test", headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[WsClient]:
    """Connect to `url`, e.g. `ws://127.0.0.1:8787/v1/responses`.

    A refused upgrade raises the InvalidStatus of websockets.
    """
    sent = dict(headers or {})
    if api_key is not None:
        sent.setdefault("Authorization", f"Bearer {api_key}")
    given = {"max_size": None, "compression": None, "ping_interval": None, "proxy": None, "close_timeout": 5}
    async with asyncio.timeout(DEFAULT_WAIT_S):
        socket = await connect(url, additional_headers=sent, **{**given, **options})
    client = WsClient(socket)
    try:
        yield client
    finally:
        await client._stop()


def _tail(events: list[Event]) -> list[str]:
    return [event.raw[:200] for event in events[-4:]]
