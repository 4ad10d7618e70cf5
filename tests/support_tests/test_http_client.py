"""The SSE reader follows the rules however the bytes are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.http_client import SseEvent, SseParser, read_sse

BODY = (
    'id: e.0\nevent: response.created\ndata: {"type":"response.created","text":"caf\u00e9 \u2028"}\n\n'
    ": still here\n\n"
    'event: response.completed\ndata: {"type":"response.completed"}\n\n'
)


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_one_byte_at_a_time_gives_the_same_events_as_all_at_once(end: str) -> None:
    data = BODY.replace("\n", end).encode() + b"\n"
    whole = parse([data])
    assert whole == parse([bytes([byte]) for byte in data])
    assert [event.event for event in whole] == ["response.created", "response.completed"]
    assert [event.id for event in whole] == ["e.0", None]
    assert whole[0].json()["text"] == "caf\u00e9 \u2028"


def test_data_over_several_lines_and_without_a_space_is_joined() -> None:
    assert parse([b"data:a\ndata: b\n\n"]) == [SseEvent(None, None, "a\nb")]


@asynccontextmanager
async def served(body: bytes, kind: str = "text/event-stream", status: str = "200 OK") -> AsyncIterator[str]:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handler, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_a_body_says_whether_done_ended_it() -> None:
    async with served(BODY.encode() + b"data: [DONE]\n\n") as url:
        body = await read_sse("GET", url)
    assert (len(body.events), body.done, body.comments) == (2, True, 1)
    async with served(BODY.encode()) as url:
        assert not (await read_sse("GET", url)).done


async def test_an_event_after_done_is_a_fault() -> None:
    async with served(b"data: [DONE]\n\n" + BODY.encode()) as url:
        with pytest.raises(AssertionError, match=r"after \[DONE\]"):
            await read_sse("GET", url)


async def test_an_event_line_that_belies_its_type_is_a_fault() -> None:
    async with served(b'event: a\ndata: {"type":"b"}\n\n') as url:
        body = await read_sse("GET", url)
    with pytest.raises(AssertionError, match="event: a carries b"):
        _ = body.payloads


async def test_an_answer_that_is_no_stream_is_a_fault() -> None:
    async with served(b"{}", kind="application/json") as url:
        with pytest.raises(AssertionError, match="content-type is application/json"):
            await read_sse("GET", url)
    async with served(b"gone", status="410 Gone") as url:
        with pytest.raises(AssertionError, match="410: gone"):
            await read_sse("GET", url)
