"""Frames that are no request: answered one by one, and no turn suffers (PROTOCOL 3.4; field issue P-14)."""

from __future__ import annotations

import json
import os

import pytest

from tests.session.play import attach_all, connected, log_bytes, started, words, write_script
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import Event, WsClient

LONG = [words(60, rate=40)]
UNREADABLE: list[str | bytes] = [
    b"{}", b"\xff", b"", "", " ", "[]", "null", '"x"', "{", "NaN", '{"a":Infinity}', '{"a":1e999}', "{}{}",
    '{"a":' * 200 + "1" + "}" * 200, '{"a":18446744073709551616}', "\ufeff{}", '{"type":"response.create"',
]  # fmt: skip
UNTYPED = ['{"type":1}', '{"type":"nope"}', "{}", '{"type":null}', '{"type":"response.created"}', '{"type":""}']


async def long_turn(server: RunningServer, client: WsClient) -> str:
    await client.create(write_script(server.data_dir, "long", LONG), stream_id="long")
    return await started(client, "long")


async def whole(server: RunningServer, run_id: str) -> list[Event]:
    async with connected(server.ws_url) as observer:
        await observer.hello()
        return await attach_all(observer, run_id)


def masked(opcode: int, payload: bytes, fin: bool = True) -> bytes:
    """A frame of a client, built by hand."""
    key = os.urandom(4)
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | opcode])
    head += bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return head + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))


@pytest.mark.parametrize("odd", [*UNREADABLE, *UNTYPED])
async def test_an_odd_frame_costs_one_error_and_no_turn(odd: str | bytes) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send_raw(odd)
        error = await client.recv_error()
        code = "unsupported_event_type" if odd in UNTYPED else "invalid_json"
        assert (error["status"], error["error"]["code"]) == (400, code)
        assert check_run(await client.run(input="fine")).text == "fine"
        assert [event["type"] for event in client.received].count("error") == 1


async def test_odd_frames_during_a_long_turn_leave_it_whole() -> None:
    async with running_server(limits={"bad_frames_per_minute": 100}) as server, connected(server.ws_url) as client:
        run_id = await long_turn(server, client)
        odd = [*UNREADABLE, *UNTYPED]
        for frame in odd:
            await client.send_raw(frame)
            await client.recv_error()
        unknown = await client.command("antiphon:dance")
        assert (unknown["code"], unknown["retryable"]) == ("unknown_command", False)
        await client.collect_run("long")
        events = [event for event in client.received if event.get("stream_id") == "long"]
        assert check_run(events).text.startswith("w0 w1 ")
        assert log_bytes(await whole(server, run_id)) == log_bytes(events)
        assert len([event for event in client.received if event["type"] == "error"]) == len(odd)


@pytest.mark.parametrize("hello", [False, True])
async def test_too_many_bad_frames_close_the_connection_and_its_runs_go_on(hello: bool) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        if hello:
            await client.hello()
        run_id = await long_turn(server, client)
        for n in range(20):
            await client.send_raw(b"\x00" if n % 2 else "{")
            answer = await client.recv_until(lambda event: event["type"] == "error")
            assert answer[-1]["error"]["code"] == "invalid_json"
        assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"
        await client.send_raw('{"type":"nope"}')
        assert await client.wait_closed() == (4501 if hello else 1008, "too many bad frames")
        check_run(await whole(server, run_id))


async def test_refused_creates_and_bad_lane_names_are_not_bad_frames() -> None:
    async with running_server(limits={"bad_frames_per_minute": 3}) as server, connected(server.ws_url) as client:
        for _ in range(10):
            await client.create(stream_id="no good")
            await client.recv_error()
            await client.create("gpt-9")
            await client.recv_error()
            await client.send({"type": "response.cancel"})
            await client.recv_error()
        assert (await client.run())[-1]["type"] == "response.completed"


async def test_text_that_is_not_utf8_closes_with_1007_and_the_run_goes_on() -> None:
    for frames in (masked(1, b'{"type":"\xff\xfe"}'), masked(1, b"\xc3", fin=False) + masked(0, b"(")):
        async with running_server() as server, connected(server.ws_url) as client:
            run_id = await long_turn(server, client)
            client.socket.transport.write(frames)
            assert (await client.wait_closed())[0] == 1007
            check_run(await whole(server, run_id))


async def test_a_message_over_the_limit_closes_with_1009_however_large_it_is() -> None:
    async with running_server(limits={"max_message_bytes": 1 << 20}) as server:
        for size in ((1 << 20) + 1, 24 << 20):
            async with connected(server.ws_url) as client:
                run_id = await long_turn(server, client)
                try:
                    await client.send_raw("x" * size)
                except Exception as error:  # the server may close while we still send
                    assert type(error).__name__.startswith("ConnectionClosed")
                assert (await client.wait_closed())[0] == 1009
                check_run(await whole(server, run_id))


async def test_a_message_just_within_the_limit_is_read() -> None:
    limit = 1 << 20
    async with running_server(limits={"max_message_bytes": limit}) as server, connected(server.ws_url) as client:
        head, tail = '{"type":"response.create","model":"antiphon/echo","input":"hi","pad":"', '"}'
        await client.send_raw(head + "x" * (limit - len(head) - len(tail)) + tail)
        assert check_run(await client.collect_run()).text == "hi"


async def test_twenty_megabytes_in_one_message_are_accepted_and_kept() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        parent = await client.run(
            input=[{"role": "user", "content": "x" * 20_000_000}, {"role": "user", "content": "hi"}]
        )
        assert check_run(parent).text == "hi"
        again = await client.run(input="and on", previous_response_id=parent[0]["response"]["id"])
        assert again[-1]["response"]["usage"]["input_tokens"] >= 4


async def test_twenty_megabytes_are_said_back_whole_also_where_nothing_is_stored() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        events = await client.run(input="x" * 20_000_000, store=False)
        assert len(check_run(events).text) == 20_000_000


async def test_a_message_in_many_fragments_is_one_message() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        whole_frame = json.dumps(
            {"type": "response.create", "model": "antiphon/echo", "input": "päce 🚀"}, ensure_ascii=False
        )
        data = whole_frame.encode()
        pieces = [masked(1, data[:5], fin=False)]
        pieces += [masked(0, data[i : i + 1], fin=False) for i in range(5, len(data) - 1)]
        for piece in [*pieces, masked(9, b"ping"), masked(0, data[-1:])]:
            client.socket.transport.write(piece)
        assert check_run(await client.collect_run()).text == "päce 🚀"


async def test_lone_surrogates_and_nul_go_through_mended_and_kept() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send_raw('{"type":"response.create","model":"antiphon/echo","input":"a\\ud800b\\u0000c"}')
        assert check_run(await client.collect_run()).text == "a\ufffdb\x00c"
