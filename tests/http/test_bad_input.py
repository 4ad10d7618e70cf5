"""Bad input on HTTP and on the socket: the documented error, and nobody else notices (PROTOCOL 3.4, 5.1).

Every test runs beside a run that was going on; it has to equal its reference when the test is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.http.calling import begin, body, create, error_of, follow, get, http, script, until
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

HEADERS = {"content-type": "application/json"}
TEXT = "a é 漢字 🚀 👩‍💻 𝄞 \u202eabc\u202c \u0001\u007f {n} "
TOML_TEXT = json.dumps(TEXT, ensure_ascii=False).replace("\x7f", "\\u007f")
BESIDE = f"[[turns]]\n[[turns.steps]]\ntext={TOML_TEXT}\nrate=400\nrepeat=60\n"
REFERENCE = "".join(TEXT.replace("{n}", str(n)) for n in range(60))
MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def beside_a_run(**settings: Any) -> AsyncIterator[RunningServer]:
    """A server with a run under way that has to end as if nothing had happened. After it the server serves on."""
    async with running_server(**settings) as server:
        response_id = await begin(server, model=script(server, "beside", BESIDE))
        watching = asyncio.create_task(follow(server, response_id))
        yield server
        run = check_run((await watching).payloads)
        assert run.text == REFERENCE
        assert (await follow(server, response_id)).payloads == (await watching).payloads
        assert (await create(server, "still here"))["output"][0]["content"][0]["text"] == "still here"


async def post(client: httpx2.AsyncClient, content: Any) -> tuple[int, str]:
    answer = await client.post("/v1/responses", content=content, headers=HEADERS)
    return answer.status_code, error_of(answer)["code"]


NOT_JSON: list[bytes] = [
    b"",
    b" ",
    b"{",
    b"nonsense",
    b'{"model":"antiphon/echo","input":"x"',
    b'{"model":"antiphon/echo","input":"x"}}',
    b'{"model":"antiphon/echo","input":"x",}',
    b"{'model':'antiphon/echo'}",
    b'{"model":"antiphon/echo","input":"tab\tline\n"}',
    b"[]",
    b'["model"]',
    b'"model"',
    b"null",
    b"17",
    b'{"model":"antiphon/echo","input":"x","temperature":NaN}',
    b'{"model":"antiphon/echo","input":"x","temperature":Infinity}',
    b'{"model":"antiphon/echo","input":"x","temperature":1e400}',
    b'{"model":"antiphon/echo","input":"x","metadata":-1e999}',
    b'{"model":"antiphon/echo","input":"x","n":18446744073709551616}',
    b'{"model":"antiphon/echo","input":"x","n":-9223372036854775809}',
    b'{"model":"antiphon/echo","input":"x","n":' + b"9" * 5000 + b"}",
    b'{"model":"antiphon/echo","input":"\\ud800","n":' + b"9" * 5000 + b"}",
    b'{"model":"antiphon/echo","input":"\\ud800","n":NaN}',
    b'{"model":"antiphon/echo","input":' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"model":"antiphon/echo","input":"x","metadata":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
    b'{"model":"antiphon/echo","x":"\\ud800","tools":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"model":"antiphon/echo","input":' + b"[" * 10_000,
    b'{"model":"antiphon/echo","input":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    b'{"model":"antiphon/echo","input":' + b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000 + b"}",
]
NOT_UTF8 = [b'{"model":"antiphon/echo","input":"\xff\xfe"}', b'{"model":"antiphon/echo","input":"\xed\xa0\x80"}']


async def test_a_body_that_is_not_one_json_object_is_invalid_json() -> None:
    async with beside_a_run() as server, http(server) as client:
        for content in [*NOT_JSON, *NOT_UTF8]:
            async with asyncio.timeout(40):
                assert await post(client, content) == (400, "invalid_json"), content[:80]
        assert len(server.app.registry) == 1


async def test_a_frame_that_is_not_one_json_object_is_answered_and_the_socket_stays() -> None:
    async with beside_a_run(limits={"bad_frames_per_minute": 100}) as server, ws_client(server.ws_url) as socket:
        for content in [b'{"type":"response.create"', *NOT_JSON]:
            await socket.send_raw(content.decode())
            answer = await socket.recv_error()
            assert (answer["status"], answer["error"]["code"]) == (400, "invalid_json"), content[:80]
        for binary in (b"", b"\x00\x01", b'{"type":"response.create","model":"antiphon/echo","input":"x"}'):
            await socket.send_raw(binary)
            assert (await socket.recv_error())["error"]["code"] == "invalid_json"
        assert check_run(await socket.run(input="fine")).text == "fine"
        assert len(server.app.registry) == 2


async def test_nesting_up_to_the_limit_is_taken_and_one_level_more_is_not() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: Any = "x"
        for _ in range(levels - 1):
            value = [value]
        return body(unknown=value)

    async with running_server() as server, http(server) as client:
        assert (await client.post("/v1/responses", json=nested(128))).status_code == 200
        assert await post(client, json.dumps(nested(129)).encode()) == (400, "invalid_json")


WRONG: list[tuple[str, Any]] = [
    ("model", 7),
    ("model", ""),
    ("model", "m" * 300),
    ("model", ["antiphon/echo"]),
    ("input", 7),
    ("input", {"role": "user"}),
    ("input", None),
    ("input[0]", ["text"]),
    ("input[1]", [{"role": "user", "content": "x"}, 5]),
    ("input[0].role", [{"content": "x"}]),
    ("input[0].role", [{"role": 5, "content": "x"}]),
    ("input[0].content", [{"role": "user"}]),
    ("input[0].content", [{"role": "user", "content": 5}]),
    ("input[0].type", [{"type": 5}]),
    ("input[0].call_id", [{"type": "function_call_output", "call_id": 5, "output": ""}]),
    ("input[0].id", [{"role": "user", "content": "x", "id": 7}]),
    ("previous_response_id", 7),
    ("instructions", 7),
    ("store", "false"),
    ("store", 1),
    ("stream", "true"),
    ("background", "yes"),
    ("generate", 0),
    ("include", "reasoning.encrypted_content"),
    ("include", ["nothing.such"]),
    ("include[0]", [5]),
    ("tools", {}),
    ("tools[0]", ["f"]),
    ("tools[0].type", [{"name": "f"}]),
    ("tools[0].type", [{"type": 5}]),
    ("tool_choice", 5),
    ("parallel_tool_calls", "no"),
    ("max_tool_calls", 0),
    ("max_output_tokens", 0),
    ("max_output_tokens", 1.5),
    ("max_output_tokens", "9"),
    ("temperature", "hot"),
    ("temperature", 2.1),
    ("temperature", -1),
    ("temperature", True),
    ("top_p", 1.1),
    ("top_logprobs", 21),
    ("presence_penalty", "x"),
    ("frequency_penalty", 3),
    ("metadata", "x"),
    ("metadata.a", {"a": 5}),
    ("metadata.a", {"a": "v" * 513}),
    ("metadata", {str(n): "v" for n in range(17)}),
    ("text", "plain"),
    ("reasoning", "much"),
    ("truncation", "maybe"),
    ("user", 5),
    ("safety_identifier", 5),
    ("prompt_cache_key", 5),
    ("service_tier", 5),
    ("conversation", 5),
    ("multi_agent", 5),
    ("antiphon", "x"),
    ("antiphon.nonsense", {"nonsense": 1}),
    ("antiphon.agent", {"agent": 7}),
    ("antiphon.agent", {"agent": "a b"}),
    ("antiphon.context", {"context": "x"}),
    ("antiphon.context", {"context": ["nobody"]}),
    ("antiphon.on_disconnect", {"on_disconnect": -1}),
    ("antiphon.on_disconnect", {"on_disconnect": 86_401}),
    ("antiphon.on_disconnect", {"on_disconnect": "30"}),
    ("antiphon.on_disconnect", {"on_disconnect": True}),
    ("antiphon.labels", {"labels": {str(n): "v" for n in range(17)}}),
    ("antiphon.labels.a", {"labels": {"a": 5}}),
    ("antiphon.visibility", {"visibility": "all"}),
    ("antiphon.upstream_authorization", {"upstream_authorization": ""}),
]


async def test_a_field_of_a_wrong_type_or_out_of_range_is_refused_by_name_on_http_and_socket() -> None:
    async with beside_a_run() as server, http(server) as client, ws_client(server.ws_url) as socket:
        for param, value in WRONG:
            field = param.partition("[")[0].partition(".")[0]
            sent = {**body(), field: value}
            answer = await client.post("/v1/responses", json=sent)
            await socket.send({"type": "response.create", "stream_id": "a", **sent})
            frame = await socket.recv_error("a")
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (400, "invalid_request"), (param, value, error)
            shown = str(error["param"])
            assert shown == param or shown.startswith(field), (param, shown)
            assert frame["status"] == 400 and frame["error"] == error
        assert len(server.app.registry) == 1


async def test_integers_of_64_bits_pass_unrounded_and_are_kept() -> None:
    numbers = {"big": 2**64 - 1, "small": -(2**63), "odd": 9007199254740993}
    async with running_server() as server:
        item = {"type": "message", "role": "user", "content": "x", **numbers}
        response = await create(server, [item], tools=[{"type": "function", "name": "f", "parameters": numbers}])
        listed = (await get(server, f"/v1/responses/{response['id']}/input_items")).json()["data"][0]
    assert {key: listed[key] for key in numbers} == numbers
    assert response["tools"][0]["parameters"] == numbers


async def test_lone_surrogates_become_replacement_characters_everywhere_the_same() -> None:
    sent = r'{"model":"antiphon/echo","input":"a\ud800b \udc00 \ud83d\ude80 c","metadata":{"k\ud800":"\udfff"}}'
    wanted = "a\ufffdb \ufffd 🚀 c"
    async with beside_a_run() as server, http(server) as client, ws_client(server.ws_url) as socket:
        answer = await client.post("/v1/responses", content=sent.encode(), headers=HEADERS)
        assert answer.status_code == 200, answer.text
        response = answer.json()
        assert response["output"][0]["content"][0]["text"] == wanted
        assert response["metadata"] == {"k\ufffd": "\ufffd"}
        replay = await follow(server, response["id"])
        assert check_run(replay.payloads).text == wanted
        listed = (await get(server, f"/v1/responses/{response['id']}/input_items")).json()
        assert listed["data"][0]["content"][0]["text"] == wanted
        await socket.send_raw(sent.replace("{", '{"type":"response.create",', 1))
        assert check_run(await socket.collect_run()).text == wanted


CONTROLS = "".join(map(chr, range(32))) + "\x7f\u202e\u2066\u200f\u2028\u2029\ufeff"


@pytest.mark.parametrize("text", [f"nul \x00 in {CONTROLS} it", "漢字かな👩‍👩‍👧‍👦🚀𝄞 é \u202eabc", "\x00"])
async def test_odd_characters_pass_through_stream_store_and_replay_the_same(text: str) -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        events = await socket.run(input=text, metadata={"k": text[:10]}, stream_id="x")
        run = check_run(events, stream_id="x")
        assert run.text == text and run.terminal is not None
        stored = (await get(server, f"/v1/responses/{run.response_id}")).json()
        replay = await follow(server, str(run.response_id))
        await socket.hello()
        attached = await socket.attach(str(run.response_id), stream_id="again")
        again = await socket.collect_attachment(attached["stream_id"])
        child = await create(server, "more", previous_response_id=run.response_id)
        listed = (await get(server, f"/v1/responses/{run.response_id}/input_items")).json()
    assert stored == run.terminal and stored["metadata"] == {"k": text[:10]}
    sse = [event.data for event in replay.events]
    assert sse == [event.raw.replace(',"stream_id":"x"}', "}") for event in events]
    numbered = [event for event in again if "sequence_number" in event]
    assert [event.raw.replace(',"stream_id":"again"}', "}") for event in numbered] == sse
    assert listed["data"][0]["content"][0]["text"] == text and child["status"] == "completed"


async def test_tool_outputs_with_odd_characters_reach_the_model_and_the_list_unharmed() -> None:
    text = f"\x00{CONTROLS}👩‍💻 漢 \u202e"
    async with running_server() as server:
        model = script(
            server, "call", "[[turns]]\n[[turns.steps]]\ncall={name='f'}\n[[turns]]\n[[turns.steps]]\ntext='ok'"
        )
        parent = await create(server, model=model)
        output = {"type": "function_call_output", "call_id": parent["output"][0]["call_id"], "output": text}
        child = await create(server, [output], model=model, previous_response_id=parent["id"])
        listed = (await get(server, f"/v1/responses/{child['id']}/input_items")).json()
    assert child["output"][0]["content"][0]["text"] == "ok"
    assert listed["data"][0]["output"] == text


async def test_a_body_of_20_mb_is_taken_and_a_big_text_comes_back_whole() -> None:
    big = "x" * (20 * MIB)
    text = "wörd " * 40_000
    async with (
        beside_a_run() as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client,
    ):
        items = [{"role": "developer", "content": big}, {"role": "user", "content": "short"}]
        answer = await client.post("/v1/responses", json=body(items))
        assert answer.status_code == 200 and answer.json()["output"][0]["content"][0]["text"] == "short"
        echo = await client.post("/v1/responses", json=body(text, store=False))
        assert echo.json()["output"][0]["content"][0]["text"] == text


async def test_a_frame_of_20_mb_is_taken() -> None:
    async with beside_a_run() as server, ws_client(server.ws_url) as socket:
        items = [{"role": "developer", "content": "x" * (20 * MIB)}, {"role": "user", "content": "short"}]
        assert check_run(await socket.run(input=items, wait_s=30)).text == "short"


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
async def test_a_body_of_65_mib_is_refused_with_413(chunked: bool) -> None:
    piece = b" " * MIB

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(65):
            yield piece

    async with (
        beside_a_run() as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client,
    ):
        content: Any = pieces() if chunked else b" " * (65 * MIB)
        answer = await client.post("/v1/responses", content=content, headers=HEADERS)
        assert (answer.status_code, error_of(answer)["code"]) == (413, "payload_too_large")


async def test_a_body_at_its_limit_is_taken_and_one_byte_more_is_not() -> None:
    async with running_server(limits={"max_body_bytes": 1000}) as server, http(server) as client:
        fits = json.dumps(body("")).encode()
        fits += b" " * (1000 - len(fits))
        assert (await client.post("/v1/responses", content=fits, headers=HEADERS)).status_code == 200
        assert await post(client, fits + b" ") == (413, "payload_too_large")


async def test_a_client_that_leaves_in_the_middle_of_its_body_starts_nothing() -> None:
    async with beside_a_run() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        head = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        writer.write(head + b'content-length: 1000\r\n\r\n{"model":"antiphon/echo","input":"x"}')
        await writer.drain()
        writer.transport.abort()
        assert (await get(server, "/health")).status_code == 200
        assert len(server.app.registry) == 1


async def test_ids_that_are_no_ids_are_unknown() -> None:
    async with beside_a_run() as server, http(server) as client:
        for given in (
            "x",
            "resp_",
            "resp_%00",
            "%F0%9F%9A%80",
            "resp_%ED%A0%80",
            "resp_'; DROP TABLE responses;--",
            "-1",
        ):
            for suffix in ("", "?stream=true", "/input_items"):
                answer = await client.get(f"/v1/responses/{given}{suffix}")
                assert (answer.status_code, error_of(answer)["code"]) == (404, "response_not_found"), given
        for given in ("x", "resp_" + "9" * 5000, "\x00", "🚀"):
            answer = await client.post("/v1/responses", json=body(previous_response_id=given))
            assert (answer.status_code, error_of(answer)["code"]) == (404, "previous_response_not_found")


async def test_unknown_fields_and_unknown_kinds_of_items_pass() -> None:
    items = [
        {"type": "hologram", "x": [1]},
        {"role": "user", "content": [{"type": "smell", "y": 1}, {"type": "input_text", "text": "hi"}]},
    ]
    async with running_server() as server:
        response = await create(server, items, nonsense={"deep": [1, {"er": None}]}, stream_options={"x": 1})
    assert response["output"][0]["content"][0]["text"] == "hi"


async def test_old_events_with_lone_surrogates_or_broken_utf8_are_mended_on_the_way_out() -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        response = await create(server, "ab cd")
        before = await follow(server, response["id"])
        spoil = {b'"delta":"ab "': b'"delta":"a\\ud800b \xed\xa0\x80"', b'"delta":"cd"': b'"delta":"\\ude00cd"'}

        def work(connection: Any) -> None:
            rows = connection.execute("SELECT chunk, payload FROM journal").fetchall()
            for chunk, payload in rows:
                for good, bad in spoil.items():
                    payload = payload.replace(good, bad)
                connection.execute("UPDATE journal SET payload = ? WHERE chunk = ?", (payload, chunk))

        await server.app.backends.store.writer.submit(work)
        after = await follow(server, response["id"])
        await socket.hello()
        for _ in range(2):
            attached = await socket.attach(response["id"])
            frames = await socket.collect_attachment(attached["stream_id"])
        assert (await socket.run(input="alive"))[-1]["type"] == "response.completed"
    deltas = [event["delta"] for event in after.payloads if "delta" in event]
    assert deltas == ["a\ufffdb \ufffd", "\ufffdcd"] and after.done
    assert [frame["delta"] for frame in frames if "delta" in frame] == deltas
    unspoilt = [old.data == new.data for old, new in zip(before.events, after.events, strict=True)]
    assert unspoilt.count(False) == 2


async def test_other_requests_are_answered_while_a_hostile_body_is_read() -> None:
    hostile = (
        b'{"model":"antiphon/echo","metadata":{' + b",".join(b'"k%d":"v"' % n for n in range(100_000)) + b"}}"
    )
    async with beside_a_run() as server, http(server) as client, http(server) as other:
        slow = asyncio.create_task(post(client, hostile))
        answered = 0
        while not slow.done():
            async with asyncio.timeout(40):
                answered += (await other.get("/health")).status_code == 200
        assert await slow == (400, "invalid_request") and answered
        await until(lambda: True)
