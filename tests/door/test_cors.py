"""Pages of other sites: those of the origins that are listed, whole, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.asyncio.client import connect

from antiphon.errors import RequestError
from antiphon.transport.door.origins import Origins
from tests.http.calling import body, error_of, http, key_of
from tests.support.server import running_server

SECRET = "sk-test-cors"
SITE = "https://chat.example"
KEYS: dict[str, Any] = {"auth": "required", "key": [key_of(SECRET)], "allowed_origins": [SITE]}

LOOKALIKES = [
    "https://evilchat.example", "https://chat.example.evil.example", "https://a.chat.example", "https://chat.exampl",
    "http://chat.example", "https://chat.example:8443", "https://chat.example/", "https://chat.example@evil.example",
    "null", "", "*", "https://CHAT.example", "https://chat.example, https://evil.example",
]  # fmt: skip


@pytest.mark.parametrize("origin", LOOKALIKES)
def test_an_origin_that_only_looks_like_an_allowed_one_is_refused(origin: str) -> None:
    origins = Origins([SITE])
    assert origins.is_foreign(SITE, "api.example")
    assert not origins.is_foreign("https://api.example", "api.example")
    with pytest.raises(RequestError) as refusal:
        origins.is_foreign(origin, "api.example")
    assert (refusal.value.code, refusal.value.status) == ("origin_not_allowed", 403)
    assert refusal.value.headers == {"x-should-retry": "false"}


async def test_a_page_of_an_allowed_site_may_read_answers_and_refusals_and_sends_no_cookies() -> None:
    async with running_server(**KEYS) as server:
        for key, status in ((SECRET, 200), ("wrong", 401)):
            async with http(server, key, origin=SITE) as client:
                answer = await client.post("/v1/responses", json=body())
                assert answer.status_code == status
                assert answer.headers["access-control-allow-origin"] == SITE
                assert "access-control-allow-credentials" not in answer.headers
                assert "origin" in answer.headers["vary"].lower()
                exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
                assert {"retry-after", "x-should-retry"} <= exposed
        async with connect(server.ws_url, origin=SITE, proxy=None) as socket:  # type: ignore[arg-type]
            await socket.send(f'{{"type": "antiphon:auth", "id": "1", "token": "{SECRET}"}}')
            assert '"antiphon:' in str(await socket.recv())


async def test_a_preflight_needs_no_key_and_allows_what_sdks_in_browsers_send() -> None:
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-lang",
    }
    async with running_server(**KEYS) as server, http(server) as client:
        answer = await client.options("/v1/responses", headers={"origin": SITE, **asked})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == SITE
        allowed = answer.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "content-type", "x-stainless-lang"))
        assert "POST" in answer.headers["access-control-allow-methods"]
        for origin in ("https://evil.example", "https://evilchat.example", "null"):
            answer = await client.options("/v1/responses", headers={"origin": origin, **asked})
            assert (answer.status_code, error_of(answer)["code"]) == (403, "origin_not_allowed")
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_the_same_site_and_clients_that_are_no_browsers_get_no_such_headers() -> None:
    async with running_server(**KEYS) as server:
        for headers in ({}, {"origin": server.url}):
            async with http(server, SECRET, **headers) as client:
                answer = await client.get("/v1/models")
                assert answer.status_code == 200
                assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_with_no_site_allowed_only_the_servers_own_pages_may() -> None:
    async with running_server() as server, http(server, origin=SITE) as client:
        answer = await client.get("/v1/models")
        assert (answer.status_code, error_of(answer)["code"]) == (403, "origin_not_allowed")
