"""Wrong credentials: so many of each address are answered as such, then with 429, over HTTP and sockets alike."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.http.calling import error_of, get, http
from tests.identity.servers import KEY, bare, close_of_page, guarded, store_key
from tests.identity.signing import OTHER_SECRET, signed

FEW: dict[str, Any] = {"failed_logins_per_s": 0.001, "failed_login_burst": 3}
"""Three, and no more while a test goes on."""

_WRONG = ("ak_made_up", "made up", signed(OTHER_SECRET))


def refused(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["code"]


async def test_over_http_who_guesses_is_told_to_wait_and_who_is_known_never_has_to() -> None:
    async with guarded(door=FEW) as server:
        await store_key(server, "ak_known")
        assert (await get(server, "/v1/models", "ak_known")).status_code == 200
        codes = [refused(await get(server, "/v1/models", wrong)) for wrong in _WRONG]
        assert codes == [(401, "invalid_api_key"), (401, "invalid_api_key"), (401, "invalid_token")]
        for wrong in (*_WRONG, "ak_another"):
            answer = await get(server, "/v1/models", wrong)
            assert refused(answer) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) > 1 and answer.headers["retry-after-ms"]
        for good in (KEY, "ak_known", signed()):
            assert (await get(server, "/v1/models", good)).status_code == 200
        assert refused(await get(server, "/v1/models", signed(exp=1))) == (401, "token_expired")
        async with http(server) as client:
            assert refused(await client.get("/v1/models")) == (401, "authentication_required")


async def test_on_sockets_the_same_count_is_kept_and_told_in_their_way() -> None:
    async with guarded(door=FEW) as server:
        for _ in range(3):
            async with bare(server) as client:
                assert (await client.command("antiphon:auth", token="wrong"))["code"] == "invalid_api_key"
        async with bare(server) as client:
            told = await client.command("antiphon:auth", token="wrong")
            assert (told["code"], told["retryable"]) == ("rate_limited", True)
            assert (await client.wait_closed())[0] == 4029
        frame, close = await close_of_page(server, authorization="Bearer wrong")
        assert (frame["error"]["code"], close) == ("rate_limited", 4029)
        async with bare(server) as client:
            assert (await client.command("antiphon:auth", token=KEY))["type"] == "antiphon:ok"
            worse = await client.command("antiphon:auth", token="wrong")
            assert worse["code"] == "rate_limited"
            assert (await client.run("antiphon/echo", "hi"))[-1]["type"] == "response.completed"


@pytest.mark.parametrize("forwarded", ["203.0.113.1", "203.0.113.2"])
async def test_behind_a_trusted_proxy_each_client_has_its_own_count(forwarded: str) -> None:
    async with guarded(door=FEW, trusted_proxies=["127.0.0.1"]) as server:
        async with http(server, "wrong", **{"x-forwarded-for": "203.0.113.1"}) as client:
            for _ in range(3):
                assert (await client.get("/v1/models")).status_code == 401
        async with http(server, "wrong", **{"x-forwarded-for": forwarded}) as client:
            status = (await client.get("/v1/models")).status_code
        assert status == (429 if forwarded == "203.0.113.1" else 401)
