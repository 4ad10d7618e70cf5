"""Sockets without credentials in their headers: the first frame brings them, or they go (PROTOCOL 3.7)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.http.calling import http, until
from tests.identity.servers import KEY, bare, close_of_page, guarded
from tests.identity.signing import OTHER_SECRET, signed
from tests.support.ws_client import ws_client

HELLO: dict[str, Any] = {"protocol": 1, "client": {"name": "test", "version": "0"}}


async def test_auth_as_first_frame_lets_in_and_a_hello_may_follow() -> None:
    async with guarded() as server, bare(server) as client:
        assert (await client.command("antiphon:auth", token=KEY)).keys() == {"type", "id"}
        assert (await client.run("antiphon/echo", "hi"))[-1]["type"] == "response.completed"
        assert "token_expires_at" not in await client.hello()


async def test_a_hello_with_a_token_lets_in_and_the_welcome_says_until_when() -> None:
    async with guarded() as server, bare(server) as client:
        welcome = await client.command("antiphon:hello", **HELLO, token=signed(exp=4_000_000_000))
        assert (welcome["type"], welcome["token_expires_at"]) == ("antiphon:welcome", 4_000_000_000)
        (state,) = [s async for s in _states(server, client)]
        assert (state.principal, state.tenant) == ("user:anna", "acme")


async def _states(server: Any, client: Any) -> Any:
    await client.run("antiphon/echo", "hi")
    for state in server.app.registry:
        yield state


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "response.create", "model": "antiphon/echo", "input": "x"},
        {"type": "response.cancel", "response_id": "resp_1"},
        {"type": "antiphon:ping", "id": "c1"},
        {"type": "antiphon:attach", "id": "c1", "response_id": "resp_1"},
        {"type": "nonsense"},
        {},
    ],
)
async def test_any_other_first_frame_is_not_acted_on(frame: dict[str, Any]) -> None:
    async with guarded() as server, bare(server) as client:
        await client.send(frame)
        refused = await client.recv_error()
        assert (refused["status"], refused["error"]["code"]) == (401, "authentication_required")
        assert await client.wait_closed() == (1008, "authentication_required")
        assert list(server.app.registry) == [] and len(server.app.hub) == 0


@pytest.mark.parametrize("data", [b"\x00binary", "no json", "[1]", "[" * 200 + "]" * 200])
async def test_a_first_frame_that_is_none_is_not_acted_on(data: str | bytes) -> None:
    async with guarded() as server, bare(server) as client:
        await client.send_raw(data)
        assert (await client.recv_error())["error"]["code"] == "authentication_required"
        assert (await client.wait_closed())[0] == 1008


@pytest.mark.parametrize(
    ("command", "code", "close"),
    [
        ({"type": "antiphon:auth", "token": "wrong"}, "invalid_api_key", 4500),
        ({"type": "antiphon:auth", "token": signed(OTHER_SECRET)}, "invalid_token", 4500),
        ({"type": "antiphon:auth", "token": signed(exp=1)}, "token_expired", 4500),
        ({"type": "antiphon:auth", "ticket": "tk_" + "x" * 32}, "invalid_ticket", 4500),
        ({"type": "antiphon:hello", **HELLO, "token": "wrong"}, "invalid_api_key", 4500),
        ({"type": "antiphon:hello", **HELLO}, "authentication_required", 4500),
        ({"type": "antiphon:auth"}, "authentication_required", 4500),
        ({"type": "antiphon:auth", "token": KEY, "ticket": "x"}, "invalid_command", 4501),
        ({"type": "antiphon:auth", "token": 3}, "invalid_command", 4501),
        ({"type": "antiphon:auth", "token": ""}, "invalid_command", 4501),
    ],
)
async def test_wrong_credentials_are_answered_and_the_socket_is_closed(
    command: dict[str, Any], code: str, close: int
) -> None:
    async with guarded() as server, bare(server) as client:
        refused = await client.command(**command)
        assert (refused["type"], refused["code"]) == ("antiphon:error", code)
        assert (await client.wait_closed())[0] == close


async def test_a_socket_that_says_nothing_is_gone_after_its_time() -> None:
    async with guarded(identity={"auth_within_s": 0.2}) as server, bare(server) as client:
        assert (await client.recv_error())["error"]["code"] == "authentication_required"
        assert await client.wait_closed() == (1008, "authentication_required")


async def test_before_it_has_authenticated_a_socket_sends_a_mebibyte_at_most_and_then_all_it_may() -> None:
    large = "x" * (1024 * 1024)
    async with guarded() as server:
        async with bare(server) as client:
            await client.send({"type": "antiphon:auth", "id": "c1", "token": large})
            assert (await client.wait_closed())[0] == 1009
        async with bare(server) as client:
            await client.command("antiphon:auth", token=KEY)
            assert (await client.run("antiphon/echo", large))[-1]["type"] == "response.completed"


async def test_only_so_many_sockets_wait_and_each_gives_its_place_back() -> None:
    async with guarded(identity={"max_unauthenticated": 2}) as server:
        async with bare(server) as first, bare(server):
            with pytest.raises(InvalidStatus) as refused:
                async with bare(server):
                    pass
            assert refused.value.response.status_code == 429
            async with ws_client(server.ws_url, api_key=KEY) as known:
                await known.hello()
            assert (await close_of_page(server))[1] == 4503
            await first.command("antiphon:auth", token=KEY)
            async with bare(server) as third:
                await third.command("antiphon:auth", token=KEY)
        async with bare(server) as one, bare(server) as two:
            for client in (one, two):
                await client.command("antiphon:auth", token=KEY)


async def test_a_session_is_built_only_for_those_who_have_authenticated() -> None:
    async with guarded() as server:
        async with bare(server) as client:
            await client.socket.ping()
            assert len(server.app.hub) == 0
            await client.command("antiphon:auth", token=KEY)
            await client.hello()
            assert len(server.app.hub) == 1
        await until(lambda: len(server.app.hub) == 0)


async def test_the_socket_of_a_principal_that_has_enough_is_refused_in_its_first_frame() -> None:
    async with guarded(door={"sockets_per_principal": 1}) as server, ws_client(server.ws_url, api_key=KEY) as held:
        await held.hello()
        async with bare(server) as client:
            assert (await client.command("antiphon:auth", token=KEY))["code"] == "too_many_connections"
            assert (await client.wait_closed())[0] == 4503


async def test_a_page_is_told_in_a_frame_and_a_code_and_an_api_client_by_its_status() -> None:
    async with guarded() as server:
        for query, headers, code in (
            ("", {"authorization": "Bearer wrong"}, "invalid_api_key"),
            ("?ticket=tk_wrong", {}, "invalid_ticket"),
            ("", {"authorization": f"Bearer {signed(exp=1)}"}, "token_expired"),
        ):
            frame, close = await close_of_page(server, query, **headers)
            assert (frame["type"], frame["error"]["code"], close) == ("error", code, 4500)
            with pytest.raises(InvalidStatus) as refused:
                async with ws_client(server.ws_url + query, api_key=None, headers=headers):
                    pass
            assert refused.value.response.status_code == 401
            assert json.loads(refused.value.response.body or b"")["error"]["code"] == code


async def test_with_authentication_off_auth_is_answered_and_changes_nothing() -> None:
    async with guarded(auth="off") as server, bare(server) as client:
        assert (await client.command("antiphon:auth", token="any"))["type"] == "antiphon:ok"
        assert (await client.run("antiphon/echo", "hi"))[-1]["type"] == "response.completed"
        async with http(server) as api:
            assert (await api.post("/v1/tickets")).json()["object"] == "ticket"


async def test_a_page_opens_its_socket_with_a_ticket_in_the_url_or_in_the_first_frame() -> None:
    async with guarded() as server, http(server, KEY, origin=server.url) as api:
        for place in ("url", "frame"):
            given = (await api.post("/v1/tickets")).json()
            assert given.keys() == {"object", "ticket", "expires_at"}
            query = f"?ticket={given['ticket']}" if place == "url" else ""
            async with bare(server, query=query, origin=server.url) as client:
                if place == "frame":
                    assert (await client.command("antiphon:auth", ticket=given["ticket"]))["type"] == "antiphon:ok"
                await client.run("antiphon/echo", "hi")
            frame, close = await close_of_page(server, f"?ticket={given['ticket']}")
            assert (frame["error"]["code"], close) == ("invalid_ticket", 4500)
        assert {state.principal for state in server.app.registry} == {"key:ci"}


async def test_tickets_are_for_those_who_may_and_for_the_origin_they_are_of() -> None:
    async with guarded() as server:
        async with http(server) as api:
            assert (await api.post("/v1/tickets")).status_code == 401
        async with http(server, KEY) as api:
            wrong: list[Any] = [{"origin": 3}, {"origin": ""}, {"origin": "x" * 301}, []]
            for body in wrong:
                assert (await api.post("/v1/tickets", json=body)).status_code == 400
            own = {"origin": server.url}
            assert (await api.post("/v1/tickets", json={"origin": "http://evil"}, headers=own)).status_code == 400
            ticket = (await api.post("/v1/tickets", json=own)).json()["ticket"]
        async with bare(server, query=f"?ticket={ticket}", origin=server.url) as client:
            await client.hello()
        with pytest.raises(InvalidStatus):
            async with bare(server, query=f"?ticket={ticket}&ticket={ticket}"):
                pass


async def test_a_client_that_leaves_before_its_first_frame_leaves_nothing() -> None:
    async with guarded(identity={"max_unauthenticated": 1}) as server:
        for _ in range(3):
            async with asyncio.timeout(20):
                while True:
                    try:
                        async with bare(server) as client:
                            await client.abort()
                        break
                    except InvalidStatus:  # the one before is not gone yet
                        continue
