"""How fast commands may come: refused one by one over sockets and HTTP, closed where they go on all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.session.rates import Pace, Rates
from antiphon.settings.door import DoorSettings
from tests.http.calling import body, error_of, http, key_of
from tests.ops.states import FakeClock
from tests.support.server import running_server
from tests.support.ws_client import ws_client

A, B = "sk-test-a", "sk-test-b"
KEYS: dict[str, Any] = {"auth": "required", "key": [key_of(A, name="a"), key_of(B, name="b")]}
NEARLY_NONE = {"creates_per_s": 0.001, "create_burst": 3}
ANNA, BOB = Principal("user:anna", "acme", "driver"), Principal("user:bob", "acme", "driver")


def rates(clock: FakeClock, **door: Any) -> Rates:
    return Rates(DoorSettings(**door).in_force(auth_required=False), clock)


def pace_of(all_rates: Rates, principal: Principal) -> Pace:
    pace = all_rates.socket(principal)
    assert pace is not None
    return pace


def creates_taken(pace: Pace) -> int:
    """How many creates are taken until one is refused."""
    for taken in range(10_000):
        try:
            pace.check("response.create")
        except RequestError:
            return taken
    raise AssertionError("nothing is limited")


def test_the_sockets_of_a_principal_share_its_bucket_and_others_have_their_own() -> None:
    all_rates = rates(FakeClock(), create_burst=10, connection_create_burst=6)
    first, second, others = (pace_of(all_rates, who) for who in (ANNA, ANNA, BOB))
    assert [creates_taken(first), creates_taken(second), creates_taken(others)] == [6, 4, 6]
    same_name = pace_of(all_rates, Principal("user:anna", "globex", "driver"))
    assert creates_taken(same_name) == 6


def test_where_one_bucket_refuses_nothing_is_taken_of_the_other() -> None:
    clock = FakeClock()
    all_rates = rates(
        clock, create_burst=4, creates_per_s=1, connection_create_burst=2, connection_creates_per_s=1
    )
    pace = pace_of(all_rates, ANNA)
    assert creates_taken(pace) == 2
    for _ in range(100):
        with pytest.raises(RequestError):
            pace.check("response.create")
    assert creates_taken(pace_of(all_rates, ANNA)) == 2


def test_what_the_default_promises_a_principal() -> None:
    clock = FakeClock()
    all_rates = Rates(DoorSettings().in_force(auth_required=True), clock)
    pace = pace_of(all_rates, ANNA)
    assert creates_taken(pace) == 200
    clock.at += 1
    assert creates_taken(pace) == 100


def test_without_authentication_nothing_is_counted() -> None:
    all_rates = rates(FakeClock())
    assert all_rates.socket(ANNA) is None
    for _ in range(10_000):
        all_rates.request(ANNA, "POST", "/v1/responses")


async def test_a_create_too_many_is_refused_on_its_lane_and_the_socket_goes_on() -> None:
    async with running_server(**KEYS, door=NEARLY_NONE) as server:
        async with ws_client(server.ws_url, api_key=A) as client, ws_client(server.ws_url, api_key=B) as other:
            for _ in range(2):
                await client.run()
            await client.create(stream_id="one")
            await client.collect_run("one")
            await client.create(stream_id="two")
            error = await client.recv_error("two")
            assert error["status"] == 429
            assert (error["error"]["type"], error["error"]["code"]) == ("rate_limit_error", "rate_limited")
            assert int(error["headers"]["retry-after"]) > 100 and error["error"]["headers"] == error["headers"]
            refused = await client.command("antiphon:ping")
            assert refused["type"] == "antiphon:error" and refused["code"] == "rate_limited"
            assert refused["retryable"] is True
            await other.run()
        async with http(server, A) as plain:
            answer = await plain.post("/v1/responses", json=body())
            assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) > 100
        assert len(list(server.app.registry)) == 4, "what was refused never began"


async def test_http_and_sockets_draw_on_one_bucket_and_a_look_costs_less_than_a_create() -> None:
    async with running_server(**KEYS, door=NEARLY_NONE) as server, http(server, A) as client:
        for _ in range(9):
            assert (await client.get("/v1/models")).status_code == 200
        for _ in range(2):
            assert (await client.post("/v1/responses", json=body())).status_code == 200
        assert (await client.post("/v1/responses", json=body())).status_code == 429
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 429
        assert (await client.get("/health")).status_code == 200
        async with ws_client(server.ws_url, api_key=A) as socket:
            await socket.create()
            assert (await socket.recv_error())["error"]["code"] == "rate_limited"


@pytest.mark.parametrize(("hello", "code"), [(False, 1013), (True, 4029)])
async def test_a_client_that_goes_on_all_the_same_is_closed(hello: bool, code: int) -> None:
    async with running_server(**KEYS, door=NEARLY_NONE) as server:
        async with ws_client(server.ws_url, api_key=A) as client:
            if hello:
                await client.hello()
            for _ in range(400):
                await client.send({"type": "antiphon:ping", "id": "p"})
            async with asyncio.timeout(40):
                assert (await client.wait_closed())[0] == code
