"""A run as Server-Sent Events: the log from a number on, then live, then the end marker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.journal.contract import Journal
from antiphon.journal.frames import Batch, sse_event
from antiphon.journal.log import RunLog

log = structlog.get_logger(__name__)

_PAGE_BYTES = 256 * 1024
DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n"
"""A comment without a blank line: openai-python takes a blank line after an `id` for an (empty) event."""


async def follow(run_log: RunLog, journal: Journal, after: int, keepalive_s: float) -> AsyncGenerator[bytes, None]:
    """Chunks of whole events after `after`, a comment in silence, `[DONE]` after the terminal event.

    The reader's pace is its own: what it does not take stays in the log. If what it has taken turns out not to be
    what happened, the chunks end without `[DONE]` (PROTOCOL 6.4.6).
    """
    news = asyncio.Event()
    forks, void = 0, after > run_log.head

    def on_batch(batch: Batch) -> None:
        news.set()

    def on_fork(first: int) -> None:
        nonlocal forks, void
        forks, void = forks + 1, void or after >= first
        news.set()

    run_log.listen(on_batch, on_fork)
    try:
        while not void:
            news.clear()
            before = forks
            page = await journal.read(run_log, after, _PAGE_BYTES)
            if forks != before:
                continue  # some of the page may be void by now
            if page is None:
                return  # the log no longer reaches back; the client comes again and is told
            if page:
                first, after = after + 1, after + len(page)
                yield _encode(page, first, run_log)
                continue
            if run_log.ended:
                yield DONE
                return
            try:
                async with asyncio.timeout(keepalive_s):
                    await news.wait()
            except TimeoutError:
                yield KEEPALIVE
    finally:
        run_log.unlisten(on_batch)


def _encode(page: list[bytes], first: int, run_log: RunLog) -> bytes:
    epochs = run_log.epochs
    if len(epochs.entries) == 1:
        epoch = epochs.current
        return b"".join([sse_event(event, f"{epoch}.{first + i}") for i, event in enumerate(page)])
    return b"".join([sse_event(event, f"{epochs.at(first + i)}.{first + i}") for i, event in enumerate(page)])


class EventStream(Response):
    """Sends chunks until they end, the client leaves, or it takes nothing for `stalled_s`.

    on_close is called exactly once, however it ended. cuts: when one of them is set, no more chunks come from this
    process; the body ends without the end marker. on_stalled: called if the client took nothing.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        on_close: Callable[[], None],
        stalled_s: float,
        cuts: Sequence[asyncio.Event],
        on_stalled: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks
        self._on_close = on_close
        self._stalled_s = stalled_s
        self._cuts = cuts
        self._on_stalled = on_stalled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            sending = asyncio.ensure_future(self._send(send))
            watching = asyncio.ensure_future(_disconnected(receive))
            cutting = [asyncio.ensure_future(cut.wait()) for cut in self._cuts]
            tasks = (sending, watching, *cutting)
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._chunks.aclose()
            if any(cut.is_set() for cut in self._cuts) and sending.cancelled() and watching.cancelled():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
                raise error
        finally:
            self._on_close()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        try:
            async for chunk in self._chunks:
                async with asyncio.timeout(self._stalled_s):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            log.info("sse_stalled")
            self._on_stalled()
            return  # without its end the server cuts the connection, and the client knows that it was broken off
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
