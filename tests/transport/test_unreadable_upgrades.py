"""An upgrade that the WebSocket parser cannot read is answered and closed: nobody keeps a connection with it."""

from __future__ import annotations

import asyncio

import pytest

from tests.transport.endpoint import WAIT_S, endpoint

UPGRADE = (
    "GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
UNREADABLE = {
    "a body": "Content-Length: 1\r\n",
    "a line of 10,000 bytes": f"X-Long: {'a' * 10_000}\r\n",
    "two hundred headers": "".join(f"X-{number}: a\r\n" for number in range(200)),
}


@pytest.mark.parametrize("header", UNREADABLE)
async def test_it_is_refused_at_once_and_the_server_still_stops(header: str) -> None:
    async with endpoint() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write((UPGRADE + UNREADABLE[header] + "\r\n").encode())
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
        finally:
            writer.close()
        assert answer.startswith(b"HTTP/1.1 4")
        assert server.sockets.empty()
