"""How many sockets an address, a principal and a tenant may have, and that every one of them is given back."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.settings.door import DoorSettings
from antiphon.settings.tenants import TenantSettings
from antiphon.transport.door.places import Place, Places
from tests.http.calling import key_of, until
from tests.http.test_door import upgrade
from tests.ops.states import FakeClock
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

A, B = "sk-test-a", "sk-test-b"
KEYS: dict[str, Any] = {
    "auth": "required",
    "tenant": [{"id": "acme", "sockets": 3}],
    "key": [key_of(A, name="a", tenant="acme"), key_of(B, name="b", tenant="acme")],
}
ANNA = Principal("user:anna", "acme", "driver")


def places(clock: FakeClock | None = None, tenant_sockets: int | None = None, **door: Any) -> Places:
    limits = DoorSettings(**door).in_force(auth_required=False)
    return Places(limits, [TenantSettings(id="acme", sockets=tenant_sockets)], clock or FakeClock())  # type: ignore[call-arg]


def test_every_way_out_gives_back_everything_whatever_order_things_happen_in() -> None:
    counted = places(sockets_per_address=5, sockets_per_principal=3, tenant_sockets=4)
    choose, open_places = random.Random(7), list[Place]()
    principals = [ANNA, Principal("user:bob", "acme", "driver"), Principal("user:anna", "other", "driver")]
    for _ in range(2000):
        if open_places and choose.random() < 0.5:
            place = open_places.pop(choose.randrange(len(open_places)))
            for _ in range(choose.randint(1, 2)):
                place.leave()
            place.admit(choose.choice(principals))
            continue
        with contextlib.suppress(RequestError):
            place = counted.enter(choose.choice(["192.0.2.1", "192.0.2.2"]))
            open_places.append(place)
            for _ in range(choose.randint(0, 2)):
                place.admit(choose.choice(principals))
    for place in open_places:
        place.leave()
    assert len(counted) == 0


def test_a_socket_counts_once_however_often_its_principal_says_who_it_is() -> None:
    counted = places(sockets_per_principal=1)
    place = counted.enter("192.0.2.1")
    for _ in range(3):
        place.admit(ANNA)
    with pytest.raises(RequestError) as refusal:
        counted.enter("192.0.2.2").admit(ANNA)
    assert (refusal.value.code, refusal.value.status, refusal.value.retryable) == (
        "too_many_connections",
        429,
        False,
    )
    assert refusal.value.headers == {"x-should-retry": "false"}


def test_upgrades_of_an_address_have_a_rate_that_others_do_not_share() -> None:
    clock = FakeClock()
    counted = places(clock, accepts_per_s=2, accept_burst=3)
    for _ in range(3):
        counted.enter("192.0.2.1").leave()
    with pytest.raises(RequestError) as refusal:
        counted.enter("192.0.2.1")
    assert (refusal.value.code, refusal.value.status, refusal.value.retryable) == ("rate_limited", 429, True)
    assert refusal.value.headers == {"retry-after": "1", "retry-after-ms": "500"}
    counted.enter("192.0.2.2").leave()
    clock.at += 0.5
    counted.enter("192.0.2.1").leave()
    assert len(counted) == 0


def counts(server: RunningServer) -> Places:
    """The counts of a running server."""
    door = server.app.asgi.user_middleware[0]
    found = door.kwargs["places"]
    assert isinstance(found, Places)
    return found


async def test_200_failing_handshakes_leave_nothing_and_a_good_one_is_let_in() -> None:
    limits = {"sockets_per_address": 4, "accept_burst": 10_000}
    async with running_server(**KEYS, door=limits) as server:
        host = f"host: {server.url.removeprefix('http://')}"
        kinds = [
            (host, "authorization: Bearer wrong"),
            ("host: evil.example",),
            (host, f"authorization: Bearer {A}", "sec-websocket-protocol: nothing"),
            (host,),
        ]
        for n in range(200):
            path = "/v1/responses" if n % 5 else "/v1/nothing"
            await upgrade(server, *kinds[n % len(kinds)], path=path)
        await until(lambda: len(counts(server)) == 0)
        async with ws_client(server.ws_url, api_key=A) as client:
            await client.run()
            assert len(counts(server)) == 3
        await until(lambda: len(counts(server)) == 0)


async def refused_with(server: RunningServer, key: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refusal:
        async with ws_client(server.ws_url, api_key=key):
            pass
    response = refusal.value.response
    assert response.headers["x-should-retry"] == "false"
    return response.status_code, bytes(response.body or b"").decode()


async def test_one_more_than_a_principal_may_have_is_refused_and_room_is_used_again() -> None:
    async with running_server(**KEYS, door={"sockets_per_principal": 2}) as server:
        async with ws_client(server.ws_url, api_key=A), ws_client(server.ws_url, api_key=B):
            async with ws_client(server.ws_url, api_key=A):
                status, text = await refused_with(server, A)
                assert status == 429 and '"code":"too_many_connections"' in text and "principal" in text
                # The third of its tenant is the last one of the tenant, whoever asks.
                status, text = await refused_with(server, B)
                assert status == 429 and "tenant" in text
            await until(lambda: counts(server)._tenants.held("acme") == 2)
            async with ws_client(server.ws_url, api_key=B) as client:
                await client.run()
        await until(lambda: len(counts(server)) == 0)


async def test_an_address_is_that_of_the_client_behind_a_trusted_proxy() -> None:
    limits = {"sockets_per_address": 1}
    async with running_server(door=limits, trusted_proxies=["127.0.0.1"]) as server:

        def opened(address: str) -> connect:
            headers = {"x-forwarded-for": address}
            return connect(server.ws_url, additional_headers=headers, proxy=None, compression=None)

        async with opened("203.0.113.1"), opened("203.0.113.2"):
            with pytest.raises(InvalidStatus) as refusal:
                async with opened("8.8.8.8, 203.0.113.1"):
                    pass
            assert refusal.value.response.status_code == 429


async def end_of(socket: ClientConnection) -> tuple[list[str], int | None]:
    frames = list[str]()
    with contextlib.suppress(ConnectionClosed):
        while True:
            frames.append(str(await asyncio.wait_for(socket.recv(), 10)))
    return frames, socket.close_code


async def test_a_page_sees_the_refusal_in_a_frame_and_its_code() -> None:
    async with running_server(door={"sockets_per_address": 1}) as server, ws_client(server.ws_url):
        async with connect(server.ws_url, origin=server.url, proxy=None) as socket:  # type: ignore[arg-type]
            (frame,), code = await end_of(socket)
        assert code == 4503 and '"status":429' in frame and '"code":"too_many_connections"' in frame
    async with (
        running_server(door={"accept_burst": 1, "accepts_per_s": 0.001}) as server,
        ws_client(server.ws_url),
    ):
        async with connect(server.ws_url, origin=server.url, proxy=None) as socket:  # type: ignore[arg-type]
            (frame,), code = await end_of(socket)
        assert code == 4029 and '"code":"rate_limited"' in frame and '"retry-after":"1000"' in frame


async def test_a_socket_that_authenticates_in_its_first_frame_counts_from_then_on() -> None:
    async with running_server(**KEYS, door={"sockets_per_principal": 1}) as server:
        async with ws_client(server.ws_url, api_key=A):
            async with connect(server.ws_url, proxy=None) as socket:
                assert counts(server)._principals.held("acme/key:a") == 1
                await socket.send(f'{{"type": "antiphon:auth", "id": "1", "token": "{A}"}}')
                frames, code = await end_of(socket)
            assert code == 4503 and "too_many_connections" in frames[0]
        await until(lambda: len(counts(server)) == 0)
        async with connect(server.ws_url, proxy=None) as socket:
            await socket.send(f'{{"type": "antiphon:auth", "id": "1", "token": "{A}"}}')
            await asyncio.wait_for(socket.recv(), 10)
            assert counts(server)._principals.held("acme/key:a") == 1
        await until(lambda: len(counts(server)) == 0)
