"""The Python ceiling: uvicorn with the sans-I/O core of `websockets`, and an application that only sends.

    echo.py FRAMES         listens on a free port of 127.0.0.1 and prints it

FRAMES is written by `prepared.py`. A create is answered with the frames of one turn, each a message of its own;
with a rate, delta by delta, to its creator and to every socket that has attached. Nothing is parsed, numbered,
kept or asked of an upstream: what this costs is what a plain ASGI application pays for its sockets.
"""

import asyncio
import itertools
import re
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import uvicorn

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

DIRECTIVE = re.compile(r"\[\[mock deltas=(\d+) rate=([\d.]+) ")
STAMP_SLOT = "#" * 19
SPOKEN = re.compile(r'"delta":"([^"]*)"')


class Frames:
    """The payloads of turns, made from the lines of a file."""

    def __init__(self, path: Path) -> None:
        lines = [line.partition(" ") for line in path.read_text().splitlines()]
        self.head, self.deltas, (self.stamped,), self.tail = (
            [payload for letter, _, payload in lines if letter == wanted] for wanted in "HDST"
        )
        self.whole_turn = lru_cache(self._whole_turn)

    def first(self) -> list[str]:
        return [numbered(line, number) for number, line in enumerate(self.head)]

    def delta(self, index: int) -> str:
        """A delta with the wall clock of now in it."""
        return numbered(self.stamped, len(self.head) + index).replace(STAMP_SLOT, f"{time.time_ns():019d}")

    def last(self, deltas: int, text: str) -> list[str]:
        numbers = itertools.count(len(self.head) + deltas)
        return [numbered(line, next(numbers)).replace("@TEXT@", text) for line in self.tail]

    def _whole_turn(self, deltas: int) -> list[str]:
        lines = list(itertools.islice(itertools.cycle(self.deltas), deltas))
        text = "".join(found for line in lines for found in SPOKEN.findall(line))
        spoken = [numbered(line, len(self.head) + index) for index, line in enumerate(lines)]
        return [*self.first(), *spoken, *self.last(deltas, text)]


def numbered(line: str, number: int) -> str:
    return line.replace("@NUMBER@", str(number))


class Echo:
    """The ASGI application. watching: what sends to each socket that has attached."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.watching: set[Send] = set()
        self.turns: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await self.answer(message["text"], send)
        self.watching.discard(send)

    async def answer(self, text: str, send: Send) -> None:
        if "antiphon:hello" in text:
            await send_text(send, '{"type":"antiphon:welcome"}')
        elif "antiphon:attach" in text:
            self.watching.add(send)
            await send_text(send, '{"type":"antiphon:attached"}')
        elif found := DIRECTIVE.search(text):
            deltas, rate = int(found[1]), float(found[2])
            if rate > 0:
                turn = asyncio.get_running_loop().create_task(self.pace(send, deltas, rate))
                self.turns.add(turn)
                turn.add_done_callback(self.turns.discard)
                return
            for payload in self.frames.whole_turn(deltas):
                await send_text(send, payload)

    async def pace(self, creator: Send, deltas: int, rate: float) -> None:
        """One turn at a pace, shown to its creator and to all who watch."""
        for payload in self.frames.first():
            await send_text(creator, payload)
        began_s = time.monotonic()
        for index in range(deltas):
            await asyncio.sleep(began_s + (index + 1) / rate - time.monotonic())
            await self.show(creator, self.frames.delta(index))
        for payload in self.frames.last(deltas, "0" * 20 * deltas):
            await self.show(creator, payload)

    async def show(self, creator: Send, payload: str) -> None:
        message = {"type": "websocket.send", "text": payload}
        for send in (creator, *self.watching):
            await send(message)


async def send_text(send: Send, payload: str) -> None:
    await send({"type": "websocket.send", "text": payload})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(f"echo on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        Echo(Frames(Path(sys.argv[1]))),
        loop="uvloop",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_level="error",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
