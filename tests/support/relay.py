"""A TCP relay that misbehaves on command, between any two parties.

    async with Relay("127.0.0.1", server_port) as relay:
        ... connect to relay.port ...
        relay.blackhole()          # nothing goes through, and nobody is told
        relay.reset()              # both sides see a connection reset

Directions: UP is from the client to the target, DOWN the other way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Literal, Self

Direction = Literal["up", "down"]
UP: Direction = "up"
DOWN: Direction = "down"
BOTH: tuple[Direction, ...] = (UP, DOWN)
CHUNK_BYTES = 16 * 1024
DEFAULT_WAIT_S = 40.0


class Path:
    """How one direction behaves, for every connection of a relay."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.bytes_per_s: float | None = None
        self.forwarded_bytes = 0
        self.open = asyncio.Event()
        self.open.set()
        self.limit_bytes: int | None = None
        self.on_limit: Callable[[], None] | None = None

    def room(self) -> int:
        """How much may be forwarded before the limit acts."""
        if self.limit_bytes is None:
            return CHUNK_BYTES
        return max(self.limit_bytes - self.forwarded_bytes, 0)


class _Link:
    """One relayed connection: a pump for each direction."""

    def __init__(self, client: _Side, target: _Side, relay: Relay) -> None:
        self.sides = {UP: target, DOWN: client}
        self._sources = {UP: client, DOWN: target}
        self._relay = relay
        self.seen: dict[Direction, bytearray] = {UP: bytearray(), DOWN: bytearray()}
        self.tasks = [asyncio.create_task(self._pump(direction)) for direction in BOTH]

    async def _pump(self, direction: Direction) -> None:
        """Read at once, write each chunk when it is due, and close our end when the other did."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)
        writer = asyncio.create_task(self._write(direction, queue))
        loop = asyncio.get_running_loop()
        path = self._relay.paths[direction]
        try:
            while True:
                await path.open.wait()
                data = await self._sources[direction].reader.read(CHUNK_BYTES)
                if self._relay.record:
                    self.seen[direction] += data
                    self._relay.changed()
                await queue.put((loop.time() + path.delay_s, data))
                if not data:
                    break
            await writer
        except OSError:
            self.reset()
        finally:
            writer.cancel()

    async def _write(self, direction: Direction, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        side, path = self.sides[direction], self._relay.paths[direction]
        with contextlib.suppress(OSError):
            while True:
                due, data = await queue.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                await path.open.wait()
                if not data:
                    side.half_close()
                    return
                await self._forward(side, path, data)

    async def _forward(self, side: _Side, path: Path, data: bytes) -> None:
        while data:
            await path.open.wait()
            piece = data[: path.room()]
            if path.bytes_per_s is not None:
                piece = piece[: max(int(path.bytes_per_s / 50), 1)]
                await asyncio.sleep(len(piece) / path.bytes_per_s)
            data = data[len(piece) :]
            side.writer.write(piece)
            await side.writer.drain()
            path.forwarded_bytes += len(piece)
            self._relay.changed()
            if path.on_limit is not None and path.room() == 0:
                act, path.on_limit, path.limit_bytes = path.on_limit, None, None
                act()

    def half_close(self, direction: Direction) -> None:
        self.sides[direction].half_close()

    def reset(self) -> None:
        for side in self.sides.values():
            side.reset()

    async def stop(self) -> None:
        self.reset()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class _Side:
    """One of the two sockets of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def half_close(self) -> None:
        """FIN: nothing more comes from here, but we still listen."""
        if not self.writer.transport.is_closing():
            with contextlib.suppress(OSError):
                self.writer.write_eof()

    def reset(self) -> None:
        """RST: SO_LINGER with zero makes the close a reset."""
        if self.writer.transport.is_closing():
            return
        raw = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Relay:
    """Listens on a port of its own (`port`) and passes everything on to the target, faults aside."""

    def __init__(self, host: str, port: int, *, record: bool = False, listen: str = "127.0.0.1") -> None:
        """record: keep what goes by, for `seen` and `wait_seen`. listen: the address it is reached at."""
        self._target = (host, port)
        self._listen = listen
        self.record = record
        self._links: list[_Link] = []
        self._change = asyncio.Event()
        self.paths: dict[Direction, Path] = {}
        self.accepted = 0
        self.refusing = False
        self.port = 0

    async def __aenter__(self) -> Self:
        self.paths = {UP: Path(), DOWN: Path()}
        self._server = await asyncio.start_server(self._accept, self._listen, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await asyncio.gather(*(link.stop() for link in self._links))
        async with asyncio.timeout(DEFAULT_WAIT_S):
            await self._server.wait_closed()

    # Faults

    def delay(self, seconds: float, directions: Iterable[Direction] = BOTH) -> None:
        """Hold every chunk back for so long; bandwidth stays."""
        for direction in directions:
            self.paths[direction].delay_s = seconds

    def throttle(self, bytes_per_s: float | None, directions: Iterable[Direction] = BOTH) -> None:
        """Let at most so many bytes a second through, per connection; None lifts it."""
        for direction in directions:
            self.paths[direction].bytes_per_s = bytes_per_s

    def blackhole(self, directions: Iterable[Direction] = BOTH) -> None:
        """Forward nothing any more, without a FIN. What is sent meanwhile waits for `restore`."""
        for direction in directions:
            self.paths[direction].open.clear()

    def restore(self, directions: Iterable[Direction] = BOTH) -> None:
        """End a blackhole."""
        for direction in directions:
            self.paths[direction].open.set()

    def half_close(self, direction: Direction) -> None:
        """Send a FIN in this direction on every connection; the other direction goes on."""
        for link in self._links:
            link.half_close(direction)

    def reset(self) -> None:
        """RST every connection, to both parties. New ones are still taken."""
        for link in self._links:
            link.reset()

    def refuse(self, refusing: bool = True) -> None:
        """Reset every new connection at once."""
        self.refusing = refusing

    def cut_after(self, total_bytes: int, direction: Direction, act: Callable[[], None] | None = None) -> None:
        """Once exactly so many bytes in all went in this direction, do `act` (default: `reset`)."""
        path = self.paths[direction]
        assert total_bytes > path.forwarded_bytes, f"{path.forwarded_bytes} bytes went through already"
        path.limit_bytes, path.on_limit = total_bytes, act or self.reset

    # What went by

    def seen(self, direction: Direction) -> list[bytes]:
        """All bytes of a direction so far, for each connection in the order they came."""
        assert self.record, "the relay was not told to record"
        return [bytes(link.seen[direction]) for link in self._links]

    async def wait_seen(self, needle: bytes, direction: Direction, wait_s: float = DEFAULT_WAIT_S) -> None:
        """Until these bytes came in this direction on some connection."""
        await self._wait(
            lambda: any(needle in data for data in self.seen(direction)), wait_s, f"{needle!r} {direction}"
        )

    async def wait_accepted(self, count: int, wait_s: float = DEFAULT_WAIT_S) -> None:
        """Until so many connections were taken in all."""
        await self._wait(lambda: self.accepted >= count, wait_s, f"{count} connections")

    async def wait_forwarded(self, total_bytes: int, direction: Direction, wait_s: float = DEFAULT_WAIT_S) -> None:
        """Until so many bytes in all went in this direction."""
        path = self.paths[direction]
        await self._wait(lambda: path.forwarded_bytes >= total_bytes, wait_s, f"{total_bytes} bytes {direction}")

    def changed(self) -> None:
        """Wake who waits for a count."""
        self._change.set()

    async def _wait(self, true: Callable[[], bool], wait_s: float, what: str) -> None:
        try:
            async with asyncio.timeout(wait_s):
                while not true():
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            raise AssertionError(f"the relay did not see {what} within {wait_s} s") from None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Side(reader, writer)
        self.accepted += 1
        self.changed()
        if self.refusing:
            client.reset()
            return
        try:
            target = _Side(*await asyncio.open_connection(*self._target))
        except OSError:
            client.reset()
            return
        self._links.append(_Link(client, target, self))
