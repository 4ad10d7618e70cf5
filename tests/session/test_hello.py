"""Hello, ping, and the rules every command keeps (PROTOCOL 2, 10.1, 10.2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.play import connected, started, words, write_script
from tests.support.server import running_server

COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("antiphon:attach", {"response_id": "resp_x"}),
    ("antiphon:detach", {"response_id": "resp_x"}),
    ("antiphon:cancel", {"response_id": "resp_x"}),
]
HELLO = {"protocol": 1, "client": {"name": "test", "version": "0"}}


async def test_before_hello_only_hello_and_ping_are_answered() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for name, fields in COMMANDS:
            refused = await client.command(name, **fields)
            assert (refused["type"], refused["code"]) == ("antiphon:error", "hello_required")
        assert (await client.command("antiphon:ping")).keys() == {"type", "id"}
        welcome = await client.hello()
        assert welcome["protocol"] == 1
        assert welcome["max_message_bytes"] == 64 * 1024 * 1024
        assert welcome["resume_window_s"] == 86_400
        assert {"attach", "cancel"} <= set(welcome["features"])


async def test_a_second_hello_is_answered_again() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        first = await client.hello()
        second = await client.hello(client={"name": "again", "instance_id": "tab-1"}, tools=[], labels={"a": "b"})
        assert first["connection_id"] == second["connection_id"]


@pytest.mark.parametrize("version", [0, 2, 99, -1])
async def test_a_version_nobody_speaks_closes_the_connection(version: int) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        refused = await client.command("antiphon:hello", **{**HELLO, "protocol": version})
        assert (refused["type"], refused["code"]) == ("antiphon:error", "unsupported_version")
        assert await client.wait_closed() == (4505, "unsupported version")


@pytest.mark.parametrize("name", ["antiphon:dance", "antiphon:", "antiphon:feed"])
async def test_an_unknown_command_is_refused_in_the_words_of_the_extension(name: str) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for _ in range(2):
            refused = await client.command(name)
            assert (refused["type"], refused["code"]) == ("antiphon:error", "unknown_command")
            await client.hello()


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ({"type": "antiphon:attach"}, "response_id"),
        ({"type": "antiphon:attach", "response_id": 7}, "response_id"),
        ({"type": "antiphon:attach", "response_id": "resp_x", "after": -1}, "after"),
        ({"type": "antiphon:attach", "response_id": "resp_x", "after": "later"}, "after"),
        ({"type": "antiphon:attach", "response_id": "resp_x", "after": 1.5}, "after"),
        ({"type": "antiphon:attach", "response_id": "resp_x", "after": 2**70}, None),
        ({"type": "antiphon:attach", "response_id": "resp_x", "epoch": 7}, "epoch"),
        ({"type": "antiphon:attach", "response_id": "resp_x", "stream_id": "a b"}, "stream_id"),
        ({"type": "antiphon:cancel"}, "response_id"),
        ({"type": "antiphon:detach", "response_id": None}, "response_id"),
        ({"type": "antiphon:hello", "protocol": "one", "client": {"name": "x"}}, "protocol"),
        ({"type": "antiphon:hello", "protocol": 1}, "client"),
        ({"type": "antiphon:hello", "protocol": 1, "client": {}}, "client.name"),
    ],
)
async def test_a_wrong_field_is_named(frame: dict[str, Any], param: str | None) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        await client.send({**frame, "id": "c9"})
        if param is None:
            assert (await client.recv_error())["error"]["code"] == "invalid_json"
            return
        refused = await client.recv()
        while refused.get("id") != "c9":
            refused = await client.recv()
        assert refused["code"] == "invalid_command"
        assert refused["param"] == param
        assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"


@pytest.mark.parametrize("bad_id", [None, "", "x" * 257, 7, ["a"]])
async def test_a_command_without_a_usable_id_gets_a_reply_without_one(bad_id: Any) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send({"type": "antiphon:ping", **({} if bad_id is None else {"id": bad_id})})
        refused = await client.recv()
        assert (refused["type"], refused["code"], refused["id"]) == ("antiphon:error", "invalid_command", None)
        assert refused["param"] == "id"


async def test_a_plain_client_is_never_pushed_to() -> None:
    async with running_server(timeouts={"connection_age_s": 1.0}) as server:
        model = write_script(server.data_dir, "short", [words(5, rate=50)])
        async with connected(server.ws_url) as plain, connected(server.ws_url) as other:
            await other.hello()
            await plain.create(model)
            run_id = await started(plain)
            await other.attach(run_id)
            await plain.collect_run()
            await plain.wait_closed()
            assert not [e for e in plain.received if e["type"].startswith("antiphon:")]


async def test_commands_are_answered_while_turns_run_and_wait() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        await client.hello()
        await client.create(slow)
        await client.create(slow)
        run_id = await started(client)
        assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"
        assert (await client.command("antiphon:cancel", response_id=run_id))["result"] == "accepted"
        await client.recv_until(lambda event: event["type"] == "response.incomplete")
        await client.command("antiphon:cancel", response_id=await started(client))
