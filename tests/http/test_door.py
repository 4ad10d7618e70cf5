"""The door: Host, Origin, forwarding headers, content types, on requests and upgrades (PROTOCOL 3.3)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from antiphon.errors import RequestError
from antiphon.settings import Settings
from antiphon.transport.door.hosts import KnownHosts, host_name
from tests.http.calling import body, create, error_of, get, http, key_of
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

SECRET = "sk-test-1"
KEYS = {"auth": "required", "key": [key_of(SECRET)]}


async def raw(
    server: RunningServer, *lines: str, method: str = "GET", path: str = "/v1/models"
) -> tuple[int, str]:
    """A request with exactly these header lines; status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        writer.write("\r\n".join([f"{method} {path} HTTP/1.1", "connection: close", *lines, "", ""]).encode())
        async with asyncio.timeout(40):
            answer = (await reader.read()).decode()
    finally:
        writer.close()
    return int(answer.split(" ", 2)[1]), answer


async def upgrade(server: RunningServer, *lines: str, path: str = "/v1/responses") -> tuple[int, str]:
    """An upgrade with these header lines; status and what came with it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    fixed = [
        f"GET {path} HTTP/1.1",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    try:
        writer.write("\r\n".join([*fixed, *lines, "", ""]).encode())
        async with asyncio.timeout(40):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            rest = "" if head.startswith("HTTP/1.1 101") else (await reader.read(4096)).decode()
    finally:
        writer.transport.abort()
    return int(head.split(" ", 2)[1]), head + rest


async def upgrade_of_page(server: RunningServer, *lines: str) -> tuple[int, str]:
    """An upgrade that a page may not have: the close code, and the frame before it. A page sees no more."""
    headers = dict(line.split(": ", 1) for line in lines)
    async with connect(server.ws_url, additional_headers=headers, proxy=None) as socket:
        async with asyncio.timeout(40):
            text = str(await socket.recv())
            await socket.wait_closed()
        assert socket.close_code is not None
        return socket.close_code, text


async def both(server: RunningServer, *lines: str) -> tuple[int, int, str]:
    """Status of a request and of an upgrade with these headers, and both texts."""
    (one, text), (two, more) = await raw(server, *lines), await upgrade(server, *lines)
    return one, two, text + more


async def test_only_names_of_this_machine_are_served_while_authentication_is_off() -> None:
    async with running_server() as server:
        port = server.url.rpartition(":")[2]
        for host in (
            f"127.0.0.1:{port}",
            "127.0.0.1",
            f"localhost:{port}",
            "LOCALHOST",
            f"[::1]:{port}",
            "localhost.",
        ):
            assert (await both(server, f"host: {host}"))[:2] == (200, 101), host
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "@127.0.0.1",
            ":x@127.0.0.1",
            "127.0.0.1:80@evil.example",
            "127.0.0.1/evil",
            "127.0.0.1#evil",
            "127.0.0.1?",
            "127.0.0.1:port",
            "127.0.0.1:999999",
            "192.168.0.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "[::1",
            "127.1",
            "",
        ):
            one, two, text = await both(server, f"host: {host}")
            assert (one, two) == (403, 403), host
            assert text.count('"code":"host_not_allowed"') == 2 and "x-should-retry: false" in text.lower(), host


async def test_a_request_without_a_host_is_refused() -> None:
    async with running_server() as server:
        assert (await raw(server))[0] in (400, 403)
        assert (await upgrade(server))[0] in (400, 403)


async def test_configured_names_are_served_besides_the_address_and_no_others_also_with_keys() -> None:
    auth = f"authorization: Bearer {SECRET}"
    async with running_server(**KEYS, allowed_hosts=["Chat.Example", "2001:DB8:0::1"]) as server:
        for host in ("chat.example", "chat.example:8443", "CHAT.EXAMPLE.", "127.0.0.1", "[2001:db8::1]:80"):
            assert (await both(server, f"host: {host}", auth))[:2] == (200, 101), host
        assert (await both(server, "host: other.example", auth))[:2] == (403, 403)
    async with running_server(**KEYS) as server:
        assert (await both(server, "host: rebound.example", auth))[:2] == (403, 403)
        assert (await raw(server, "host: rebound.example", path="/health"))[0] == 403


async def test_bound_to_every_address_each_address_is_served_but_no_name_nobody_configured() -> None:
    assert host_name("10.1.2.3:80") == "10.1.2.3" and host_name("[FE80::1]:80") == "fe80::1"
    hosts = KnownHosts(Settings(host="0.0.0.0", key=[key_of(SECRET)]))  # type: ignore[list-item]
    for host in ("10.1.2.3", "[2001:db8::1]:80", "localhost:8787", "127.0.0.1"):
        hosts.check(host)
    for host in ("rebound.example", "10.1.2.3.nip.io"):
        with pytest.raises(RequestError) as refusal:
            hosts.check(host)
        assert refusal.value.code == "host_not_allowed"


async def test_pages_of_others_are_kept_out_whatever_the_method() -> None:
    async with running_server() as server:
        host = server.url.removeprefix("http://")
        port = host.rpartition(":")[2]
        for origin in (f"http://{host}", f"HTTP://{host}", f"https://{host}"):
            assert (await both(server, f"host: {host}", f"origin: {origin}"))[:2] == (200, 101), origin
        for origin in (
            "http://evil.example",
            "null",
            "",
            f"http://127.0.0.1:{int(port) + 1}",
            "http://127.0.0.1",
            f"http://localhost:{port}",
            f"http://{host}.evil.example",
            f"http://{host}@evil.example",
            f"http://evil.example/{host}",
            f"ftp://{host}",
            f"file://{host}",
            host,
            "http://[",
            f"http://{host} x",
        ):
            status, text = await raw(server, f"host: {host}", f"origin: {origin}", "cookie: a=b")
            code, frame = await upgrade_of_page(server, f"origin: {origin}", "cookie: a=b")
            assert (status, code) == (403, 4504), origin
            assert (text + frame).count('"code":"origin_not_allowed"') == 2, origin
        async with http(server, origin="http://evil.example") as client:
            for method, path in (
                ("POST", "/v1/responses"),
                ("DELETE", "/v1/responses/x"),
                ("OPTIONS", "/v1/responses"),
            ):
                answer = await client.request(method, path, json=body() if method == "POST" else None)
                assert (answer.status_code, error_of(answer)["code"]) == (403, "origin_not_allowed")
        assert list(server.app.registry) == []


async def test_a_missing_origin_is_no_page_on_this_machine_or_with_credentials() -> None:
    async with running_server() as server, http(server) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.post("/v1/responses", json=body())).status_code == 200
    async with running_server(**KEYS) as server, http(server, SECRET) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.post("/v1/responses", json=body())).status_code == 200


async def test_off_this_machine_without_keys_a_missing_origin_may_only_read() -> None:
    open_to_all: Any = {"host": "0.0.0.0", "auth": "off", "insecure": True}
    async with running_server(**open_to_all) as server:
        async with http(server) as client:
            assert (await client.get("/v1/models")).status_code == 200
            answer = await client.post("/v1/responses", json=body())
            assert (answer.status_code, error_of(answer)["code"]) == (403, "origin_not_allowed")
            own = await client.post("/v1/responses", json=body(), headers={"origin": server.url})
            assert own.status_code == 200
        async with http(server, "any") as client:
            assert (await client.post("/v1/responses", json=body())).status_code == 200


async def test_forwarded_requests_are_refused_while_authentication_is_off() -> None:
    async with running_server() as server:
        host = f"host: {server.url.removeprefix('http://')}"
        for line in (
            "forwarded: for=10.0.0.1",
            "x-forwarded-for: 10.0.0.1",
            "X-Forwarded-Host: chat.example",
            "x-forwarded-proto: https",
            "x-real-ip: 10.0.0.1",
        ):
            one, two, text = await both(server, host, line)
            assert (one, two) == (403, 403), line
            assert text.count('"code":"forwarded_not_allowed"') == 2


async def test_a_trusted_proxy_may_forward_and_with_keys_everybody_may() -> None:
    async with running_server(trusted_proxies=["127.0.0.1"]) as server:
        host = f"host: {server.url.removeprefix('http://')}"
        assert (await both(server, host, "x-forwarded-for: 10.0.0.1", "x-forwarded-proto: https"))[:2] == (
            200,
            101,
        )
    async with running_server(trusted_proxies=["10.9.9.9"]) as server:
        host = f"host: {server.url.removeprefix('http://')}"
        assert (await both(server, host, "x-forwarded-for: 10.9.9.9"))[:2] == (403, 403)
    async with running_server(**KEYS) as server:
        host = f"host: {server.url.removeprefix('http://')}"
        auth = f"authorization: Bearer {SECRET}"
        assert (await both(server, host, auth, "x-forwarded-for: 10.0.0.1"))[:2] == (200, 101)


async def test_a_body_needs_a_json_content_type_and_no_body_needs_none() -> None:
    async with running_server() as server, http(server) as client:
        payload = b'{"model":"antiphon/echo","input":"x"}'
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
            answer = await client.post("/v1/responses", content=payload, headers={"content-type": kind})
            assert answer.status_code == 200, kind
        refused = [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
            "json",
        ]
        for kind in [*refused, "text/plain; application/json", "application/jsonp"]:
            answer = await client.post("/v1/responses", content=payload, headers={"content-type": kind})
            assert (answer.status_code, error_of(answer)["code"]) == (415, "unsupported_media_type"), kind
        response_id = answer.json().get("id") or (await create(server))["id"]
        chunked = await client.post(
            f"/v1/responses/{response_id}/cancel", content=_chunks(), headers={"content-type": ""}
        )
        assert chunked.status_code == 415
        assert (await client.post(f"/v1/responses/{response_id}/cancel")).status_code == 200
        assert (await client.get(f"/v1/responses/{response_id}")).status_code == 200
        assert (await client.post("/v1/responses")).status_code == 400


async def _chunks():  # type: ignore[no-untyped-def]
    yield b"{}"


async def test_an_upgrade_at_another_path_is_not_found() -> None:
    async with running_server() as server:
        host = f"host: {server.url.removeprefix('http://')}"
        for path in ("/", "/v1", "/v1/models", "/v1/responses/resp_1", "/socket"):
            status, text = await upgrade(server, host, path=path)
            assert status in (404, 405, 403) and status != 101, (path, text)


async def test_without_a_known_key_nothing_under_v1_is_answered_and_upgrades_are_refused_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(**KEYS) as server:
        for key in (None, "wrong", SECRET + "x", SECRET[:-1]):
            answers = []
            async with http(server, key) as client:
                for method, path in (
                    ("POST", "/v1/responses"),
                    ("GET", "/v1/responses/resp_1"),
                    ("DELETE", "/v1/responses/resp_1"),
                    ("POST", "/v1/responses/resp_1/cancel"),
                    ("GET", "/v1/models"),
                    ("GET", "/v1/nothing"),
                    ("GET", "/v1/responses"),
                ):
                    answers.append(
                        await client.request(method, path, json=body() if path == "/v1/responses" else None)
                    )
            assert {answer.status_code for answer in answers} == {401}
            for answer in answers:
                error = error_of(answer)
                code = "authentication_required" if key is None else "invalid_api_key"
                assert (error["type"], error["code"]) == ("authentication_error", code)
                assert answer.headers["www-authenticate"] == "Bearer"
            if key is None:
                continue  # a socket may still say who it is: tests/identity/test_first_frames.py
            try:
                async with ws_client(server.ws_url, api_key=key):
                    raise AssertionError(f"the upgrade with {key!r} was accepted")
            except InvalidStatus as refusal:
                assert refusal.response.status_code == 401
                assert refusal.response.headers["www-authenticate"] == "Bearer"
                assert b'"code":"invalid_api_key"' in bytes(refusal.response.body or b"")
        async with http(server) as client:
            assert (await client.get("/health")).status_code == (await client.get("/ready")).status_code == 200
            assert (await client.get("/")).status_code == 200
        for scheme in ("Basic", "bearer", "BEARER"):
            async with http(server, authorization=f"{scheme} {SECRET}") as client:
                wanted = 401 if scheme == "Basic" else 200
                assert (await client.get("/v1/models")).status_code == wanted
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_credentials_are_ignored_while_authentication_is_off() -> None:
    async with running_server() as server:
        response = await create(server, key="whatever")
        for key in (None, "other", "ü"):
            headers = [(b"authorization", f"Bearer {key}".encode("latin-1"))] if key else []
            async with http(server) as client:
                answer = await client.get(f"/v1/responses/{response['id']}", headers=headers)
            assert answer.status_code == 200
        (state,) = list(server.app.registry)
        assert (state.principal, state.tenant) == ("user:local", "default")
        assert (await get(server, "/v1/models")).status_code == 200
