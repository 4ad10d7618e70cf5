"""STUB: something that speaks the protocol of Redis and says what a test wants it to say.

async with RespServer(lambda command: b"+PONG\\r\\n" if command[0] == b"PING" else b"+OK\\r\\n") as server:
    ... server.port ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Self

Answer = Callable[[list[bytes]], bytes]


def bulk(text: bytes) -> bytes:
    """A string reply."""
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(parts: Sequence[bytes]) -> bytes:
    """An array of encoded replies."""
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))


class RespServer:
    """answer: called with each command; what it gives is sent as it is. greeting: sent at once."""

    def __init__(self, answer: Answer, greeting: bytes = b"") -> None:
        self.answer = answer
        self.greeting = greeting
        self.port = 0
        self.commands: list[list[bytes]] = []
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        async with asyncio.timeout(40):
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        writer.write(self.greeting)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                if not line.startswith(b"*"):
                    break
                command = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    command.append((await reader.readexactly(size + 2))[:-2])
                self.commands.append(command)
                writer.write(self.answer(command))
                await writer.drain()
        self._writers.discard(writer)
        writer.close()
