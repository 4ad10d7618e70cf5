"""Roles, tenants and visibility: what a key may do, and that foreign ids are as unknown ones (PROTOCOL 3.2)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tests.http.calling import UNKNOWN_ID, begin, body, create, error_of, get, http, key_of, slow
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import WsClient, ws_client

TENANTS = [{"id": "acme"}, {"id": "other", "models": ["antiphon/echo"]}]
KEYS = [
    key_of("viewer", name="viewer", tenant="acme", role="viewer"),
    key_of("driver", name="driver", tenant="acme", role="driver"),
    key_of("driver2", name="driver2", tenant="acme", role="driver"),
    key_of("operator", name="operator", tenant="acme", role="operator"),
    key_of("admin", name="admin", tenant="default", role="admin"),
    key_of("foreign", name="foreign", tenant="other", role="operator"),
    key_of("anna", user="anna", tenant="acme", role="driver"),
]


@contextlib.asynccontextmanager
async def tenants(**settings: Any) -> AsyncIterator[RunningServer]:
    async with running_server(auth="required", key=KEYS, tenant=TENANTS, **settings) as server:
        yield server


async def call(server: RunningServer, key: str, method: str, path: str, **options: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.request(method, path, **options)


async def test_a_viewer_reads_and_attaches_but_neither_creates_nor_cancels_nor_deletes() -> None:
    async with tenants() as server:
        response_id = await begin(server, model=slow(server), key="driver")
        path = f"/v1/responses/{response_id}"
        assert (await get(server, path, "viewer")).status_code == 200
        async with ws_client(server.ws_url, api_key="viewer") as socket:
            await socket.hello()
            assert (await socket.attach(response_id))["mode"] == "replay"
            cancelled = await socket.command("antiphon:cancel", response_id=response_id)
            await socket.create(stream_id="lane")
            created = await socket.recv_error("lane")
        refused = [
            await call(server, "viewer", "POST", "/v1/responses", json=body()),
            await call(server, "viewer", "POST", f"{path}/cancel"),
        ]
        assert (cancelled["type"], cancelled["code"]) == ("antiphon:error", "forbidden")
        assert (created["status"], created["error"]["code"]) == (403, "forbidden")
        for answer in refused:
            error = error_of(answer)
            assert (answer.status_code, error["type"], error["code"]) == (403, "permission_error", "forbidden")
            assert answer.headers["x-should-retry"] == "false"
        assert (await get(server, path, "viewer")).json()["status"] == "in_progress"
        await call(server, "driver", "POST", f"{path}/cancel")
        assert (await call(server, "viewer", "DELETE", path)).status_code == 403


async def test_a_driver_cancels_its_own_runs_and_an_operator_those_of_its_tenant() -> None:
    async with tenants() as server:
        model = slow(server)
        for canceller, status in (
            ("driver2", 403),
            ("anna", 403),
            ("driver", 200),
            ("operator", 200),
            ("admin", 200),
        ):
            response_id = await begin(server, model=model, key="driver")
            answer = await call(server, canceller, "POST", f"/v1/responses/{response_id}/cancel")
            assert answer.status_code == status, canceller
            if status == 200:
                assert answer.json()["status"] == "cancelled"
                row = server.app.registry.get(response_id)
                assert row.terminal is not None and row.terminal["by"] == f"key:{canceller}"
        ended = (await create(server, key="driver"))["id"]
        assert (await call(server, "driver2", "POST", f"/v1/responses/{ended}/cancel")).status_code == 403
        assert (await call(server, "driver2", "DELETE", f"/v1/responses/{ended}")).status_code == 403
        assert (await call(server, "operator", "DELETE", f"/v1/responses/{ended}")).status_code == 200


async def test_principals_are_named_by_user_by_key_or_by_digest() -> None:
    async with tenants() as server:
        await create(server, key="anna")
        await create(server, key="driver")
        assert {state.principal for state in server.app.registry} == {"user:anna", "key:driver"}
    digest = str(key_of("plain")["sha256"])
    async with running_server(auth="required", key=[key_of("plain")]) as server:
        await create(server, key="plain")
        assert {state.principal for state in server.app.registry} == {f"key:{digest[:12]}"}


def verbs(response_id: str) -> list[tuple[str, str, Any]]:
    path = f"/v1/responses/{response_id}"
    return [
        ("GET", path, None),
        ("GET", f"{path}?stream=true", None),
        ("GET", f"{path}?stream=true&starting_after=3", None),
        ("GET", f"{path}/input_items", None),
        ("POST", f"{path}/cancel", None),
        ("DELETE", path, None),
        ("POST", "/v1/responses", body(previous_response_id=response_id)),
    ]


async def frames(socket: WsClient, response_id: str) -> list[str]:
    """What every frame about an id is answered with."""
    got = [
        (await socket.command(kind, response_id=response_id)).raw
        for kind in ("antiphon:attach", "antiphon:cancel", "antiphon:detach")
    ]
    for frame in (
        {"type": "response.create", "model": "antiphon/echo", "input": "x", "previous_response_id": response_id},
        {"type": "response.cancel", "response_id": response_id},
        {"type": "response.steer", "previous_response_id": response_id, "input": "x"},
        {"type": "response.inject", "response_id": response_id, "input": []},
    ):
        await socket.send(frame)
        got.append((await socket.recv_on(None)).raw)
    return got


async def test_every_verb_answers_a_foreign_id_exactly_as_an_unknown_one() -> None:
    async with tenants() as server:
        running = await begin(server, "SECRET", model=slow(server), key="driver")
        ended = (await create(server, "SECRET", key="driver"))["id"]
        private = (await create(server, "SECRET", key="driver", antiphon={"visibility": "private"}))["id"]
        unstored = (await create(server, "SECRET", key="driver", store=False))["id"]
        for asker, hidden in (
            ("foreign", (running, ended, private, unstored)),
            ("driver2", (private,)),
            ("viewer", (private,)),
        ):
            async with (
                ws_client(server.ws_url, api_key=asker) as one,
                ws_client(server.ws_url, api_key=asker) as two,
            ):
                await one.hello()
                await two.hello()
                unknown = [answer.replace(UNKNOWN_ID, "ID") for answer in await frames(one, UNKNOWN_ID)]
                for response_id in hidden[:1]:
                    told = [answer.replace(response_id, "ID") for answer in await frames(two, response_id)]
                    assert told == unknown, asker
            for response_id in hidden:
                for (method, path, sent), (_, other, same) in zip(
                    verbs(response_id), verbs(UNKNOWN_ID), strict=True
                ):
                    told, none = [
                        await call(server, asker, method, where, json=what)
                        for where, what in ((path, sent), (other, same))
                    ]
                    assert told.status_code == none.status_code == (403 if asker == "viewer" and sent else 404)
                    assert told.text.replace(response_id, "ID") == none.text.replace(UNKNOWN_ID, "ID")
                    assert {k: v for k, v in told.headers.items() if k != "date"} == {
                        k: v for k, v in none.headers.items() if k != "date"
                    }
        assert (await get(server, f"/v1/responses/{running}", "driver")).json()["status"] == "in_progress"


async def test_private_runs_are_seen_by_their_creator_and_by_operators_only() -> None:
    async with tenants() as server:
        response_id = (await create(server, key="driver", antiphon={"visibility": "private"}))["id"]
        path = f"/v1/responses/{response_id}"
        seen = {key: (await get(server, path, key)).status_code for key in ("driver", "operator", "admin", "anna")}
        assert seen == {"driver": 200, "operator": 200, "admin": 200, "anna": 404}
        goes_on = await call(
            server, "driver", "POST", "/v1/responses", json=body(previous_response_id=response_id)
        )
        assert goes_on.status_code == 200


async def test_an_admin_sees_all_tenants_but_continues_only_its_own() -> None:
    async with tenants() as server:
        response_id = (await create(server, key="driver"))["id"]
        assert (await get(server, f"/v1/responses/{response_id}", "admin")).status_code == 200
        answer = await call(server, "admin", "POST", "/v1/responses", json=body(previous_response_id=response_id))
        assert (answer.status_code, error_of(answer)["code"]) == (404, "previous_response_not_found")


async def test_an_idempotency_key_belongs_to_one_tenant_and_principal() -> None:
    async with tenants() as server:
        ids = set()
        for key in ("driver", "driver2", "foreign", "driver"):
            async with http(server, key, **{"idempotency-key": "k"}) as client:
                ids.add((await client.post("/v1/responses", json=body())).json()["id"])
    assert len(ids) == 3


async def test_models_that_are_not_open_to_a_tenant_are_neither_listed_nor_served_nor_told_apart() -> None:
    async with tenants() as server:
        listed = (await get(server, "/v1/models", "foreign")).json()
        assert [model["id"] for model in listed["data"]] == ["antiphon/echo"]
        assert (await get(server, "/v1/models/antiphon/demo", "foreign")).status_code == 404
        closed = await call(server, "foreign", "POST", "/v1/responses", json=body(model="antiphon/demo"))
        absent = await call(server, "foreign", "POST", "/v1/responses", json=body(model="antiphon/none"))
        assert closed.status_code == absent.status_code == 404
        assert closed.text.replace("antiphon/demo", "M") == absent.text.replace("antiphon/none", "M")
        assert len((await get(server, "/v1/models", "driver")).json()["data"]) > 1
