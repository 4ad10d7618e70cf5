"""Credentials end: at each use, on open sockets and streams, at their time or when they are revoked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from antiphon.governance.identity.authenticator import Identity
from antiphon.ports import Credentials
from antiphon.store import revoked_tokens
from antiphon.store.revoked_tokens import one_token
from tests.http.calling import body, error_of, http, slow, until
from tests.identity.servers import bare, guarded, revoke_key, store_key
from tests.identity.signing import signed
from tests.support.http_client import open_sse
from tests.support.ws_client import ws_client

QUICK: dict[str, Any] = {"identity": {"reread_s": 0.1}}


def soon(seconds: float, **fields: Any) -> str:
    return signed(exp=time.time() + seconds, **fields)


async def test_a_socket_closes_when_its_token_ends_and_its_run_goes_on() -> None:
    async with guarded() as server, ws_client(server.ws_url, api_key=soon(4)) as client:
        await client.create(slow(server))
        created = await client.recv_on()
        refused = (await client.recv_until(lambda event: event["type"] == "error", wait_s=20))[-1]
        assert (refused["status"], refused["error"]["code"]) == (401, "token_expired")
        assert await client.wait_closed() == (1008, "token_expired")
        run = server.app.registry.get(created["response"]["id"])
        assert run.state == "running"


async def test_a_client_that_said_hello_is_warned_and_told_to_come_back() -> None:
    notice = {"expiry_notice_s": 1}
    async with guarded(identity=notice) as server, ws_client(server.ws_url, api_key=soon(4)) as client:
        welcome = await client.hello()
        warned = await client.recv_on(wait_s=20)
        assert (warned["type"], warned["reason"]) == ("antiphon:goaway", "token_expiring")
        assert warned["deadline_ms"] <= 1_000 and welcome["token_expires_at"] > time.time() - 20
        assert await client.wait_closed(20) == (4002, "token_expired")


async def test_who_says_hello_when_the_end_is_near_is_warned_right_after_the_welcome() -> None:
    async with guarded() as server, ws_client(server.ws_url, api_key=soon(30)) as client:
        await client.command("antiphon:ping")
        assert not [event for event in client.received if event["type"] == "antiphon:goaway"]
        await client.hello()
        warned = await client.recv_on()
        assert (warned["type"], warned["reason"]) == ("antiphon:goaway", "token_expiring")
        assert 0 < warned["deadline_ms"] <= 30_000
        await client.command("antiphon:auth", token=signed())
        before = len(client.received)
        await client.hello()
        assert len(client.received) == before + 1


async def test_a_newer_token_keeps_the_socket_open_and_can_only_take_rights_away() -> None:
    async with guarded() as server, ws_client(server.ws_url, api_key=soon(6, role="operator")) as client:
        answered = await client.command("antiphon:auth", token=signed(exp=4_000_000_000, role="admin"))
        assert answered["token_expires_at"] == 4_000_000_000
        assert (await client.hello())["token_expires_at"] == 4_000_000_000
        await client.command("antiphon:auth", token=signed(role="viewer"))
        await client.create("antiphon/echo")
        assert (await client.recv_error())["error"]["code"] == "forbidden"
        await client.command("antiphon:auth", token=signed(role="driver"))
        await client.create("antiphon/echo")
        assert (await client.recv_error())["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"token": signed(sub="bob")}, "forbidden"),
        ({"token": signed(tenant="other")}, "forbidden"),
        ({"token": signed(tenant=None)}, "forbidden"),
        ({"token": "wrong"}, "invalid_api_key"),
        ({"token": signed(exp=1)}, "token_expired"),
        ({"ticket": "tk_wrong"}, "invalid_ticket"),
        ({}, "invalid_command"),
        ({"token": "a", "ticket": "b"}, "invalid_command"),
    ],
)
async def test_credentials_that_do_not_fit_change_nothing(fields: dict[str, Any], code: str) -> None:
    async with guarded() as server, ws_client(server.ws_url, api_key=signed()) as client:
        refused = await client.command("antiphon:auth", **fields)
        assert (refused["type"], refused["code"]) == ("antiphon:error", code)
        assert (await client.run("antiphon/echo", "hi"))[-1]["type"] == "response.completed"


async def test_a_stream_over_http_ends_with_its_token_and_without_an_end_marker() -> None:
    async with guarded() as server:
        body = {"model": slow(server), "input": "x", "stream": True}
        headers = {"authorization": f"Bearer {soon(4)}"}
        async with open_sse("POST", f"{server.url}/v1/responses", json=body, headers=headers, wait_s=20) as stream:
            events = [event.json() async for event in stream]
        assert events and not stream.done
        (run,) = server.app.registry
        assert run.state == "running"


async def test_a_stored_key_works_at_once_and_is_refused_within_seconds_of_its_revocation() -> None:
    async with guarded(**QUICK) as server:
        key_id = await store_key(server, "ak_new")
        async with http(server, "ak_new") as api, ws_client(server.ws_url, api_key="ak_new") as plain:
            assert (await api.get("/v1/models")).status_code == 200
            async with bare(server) as hello:
                await hello.command("antiphon:hello", protocol=1, client={"name": "x"}, token="ak_new")
                await revoke_key(server, key_id)
                assert await hello.wait_closed() == (4500, "invalid_api_key")
            assert (await plain.recv_error())["error"]["code"] == "invalid_api_key"
            assert await plain.wait_closed() == (1008, "invalid_api_key")
            answer = await api.get("/v1/models")
            assert (answer.status_code, error_of(answer)["code"]) == (401, "invalid_api_key")


async def test_a_queued_turn_is_not_started_with_a_key_that_counts_no_more() -> None:
    """Nobody has heard of the revocation yet but the check itself."""
    async with guarded(**QUICK) as server:
        key_id = await store_key(server, "ak_queue")
        async with ws_client(server.ws_url, api_key="ak_queue") as client:
            await client.hello()
            server.app.identity._stored.on_revoked = lambda ids: None  # type: ignore[union-attr]
            await revoke_key(server, key_id)
            stored = server.app.identity._stored  # type: ignore[union-attr]
            await until(lambda: key_id in stored._revoked)
            await client.create("antiphon/echo")
            assert (await client.recv_error())["error"]["code"] == "invalid_api_key"
            assert (await client.command("antiphon:attach", response_id="resp_x"))["code"] == "invalid_api_key"
            assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"
        assert list(server.app.registry) == []


async def test_a_key_that_runs_out_is_refused_as_such() -> None:
    async with guarded() as server:
        await store_key(server, "ak_short", expires_at=time.time() - 1)
        async with http(server, "ak_short") as api:
            answer = await api.get("/v1/models")
        assert (answer.status_code, error_of(answer)["code"]) == (401, "token_expired")
        assert "www-authenticate" in answer.headers


async def test_nobody_is_watched_any_more_when_all_have_left() -> None:
    async with guarded() as server:
        async with ws_client(server.ws_url, api_key=signed()) as client:
            await client.run("antiphon/echo", "hi")
            await client.command("antiphon:auth", token=signed(jti="newer"))
            assert len(server.app.identity._watches) == 1  # type: ignore[union-attr]
        await until(lambda: len(server.app.identity._watches) == 0)  # type: ignore[union-attr]


async def test_who_begins_to_watch_a_moment_after_a_revocation_is_told_of_it() -> None:
    async with guarded() as server:
        identity = server.app.identity
        assert isinstance(identity, Identity)
        key_id, told = await store_key(server, "ak_1"), list[str]()
        by_key = await identity.authenticate(Credentials("ak_1"))
        by_token = await identity.authenticate(Credentials(signed(jti="t1")))
        await revoke_key(server, key_id)
        await server.app.backends.store.writer.submit(revoked_tokens.revoke(one_token("t1"), time.time()))
        await identity._stored.read()
        await identity._revoked_tokens.read()
        for principal in (by_key, by_token):
            identity.watch(principal, told.append)
        await until(lambda: told == ["revoked", "revoked"])
        assert len(identity._watches) == 0


async def test_a_create_that_waits_for_its_answer_is_told_when_its_credential_ends_and_its_run_goes_on() -> None:
    async with guarded(**QUICK) as server:
        key_id = await store_key(server, "ak_waits")
        ends = {soon(4): "token_expired", "ak_waits": "invalid_api_key"}
        for credential, code in ends.items():
            async with http(server, credential) as client:
                waiting = asyncio.create_task(
                    client.post("/v1/responses", json=body(model=slow(server)), timeout=60)
                )
                await until(lambda: any(state.state == "running" for state in server.app.registry))
                if credential == "ak_waits":
                    await revoke_key(server, key_id)
                answer = await waiting
            assert (answer.status_code, error_of(answer)["code"]) == (401, code)
            (run,) = [state for state in server.app.registry if state.state == "running"]
            async with http(server, signed(role="operator")) as operator:
                assert (await operator.post(f"/v1/responses/{run.response_id}/cancel")).status_code == 200
        await until(lambda: len(server.app.identity._watches) == 0)  # type: ignore[union-attr]
