"""A feed as Server-Sent Events: what does not fit into a bounded buffer is told later, and shorter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from antiphon.core.feed_frames import FeedMessage
from antiphon.ops.feed.subscription import FeedSubscription
from antiphon.transport.sse import KEEPALIVE

_BUFFER_BYTES = 256 * 1024


class SseSink:
    """A feed's way to a body. What is in it goes out with the next chunk."""

    encoding = "sse"
    open = True

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size_bytes = 0
        self._news = asyncio.Event()

    @property
    def full(self) -> bool:
        return self._size_bytes >= _BUFFER_BYTES

    def encode(self, message: FeedMessage) -> bytes:
        position = b"id: %b\n" % message.position.encode() if message.position else b""
        return b"event: %b\n%bdata: %b\n\n" % (message.kind.encode(), position, message.payload)

    def write(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size_bytes += len(data)
        self._news.set()

    async def chunks(self, subscription: FeedSubscription, keepalive_s: float) -> AsyncGenerator[bytes, None]:
        """What is written, as it comes; a comment in silence. They have no end of their own."""
        while True:
            while self._waiting:
                chunk = b"".join(self._waiting)
                self._waiting.clear()
                self._size_bytes = 0
                yield chunk
                subscription.wake()
            self._news.clear()
            try:
                async with asyncio.timeout(keepalive_s):
                    await self._news.wait()
            except TimeoutError:
                yield KEEPALIVE
