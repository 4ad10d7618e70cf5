"""The routes that list: input items, models, health and readiness, and what is at no path (PROTOCOL 11.1)."""

from __future__ import annotations

import asyncio

from antiphon_protocol.bodies import Health, InputItemList, ModelList
from tests.http.calling import body, create, error_of, get, http, script, stub_server
from tests.support import stub_upstream as stub
from tests.support.server import running_server

ITEMS = [{"role": "user", "content": f"text {i}"} for i in range(25)]


async def test_input_items_come_newest_first_twenty_at_a_time_and_page_without_a_gap() -> None:
    async with running_server() as server:
        path = f"/v1/responses/{(await create(server, ITEMS))['id']}/input_items"
        first = (await get(server, path)).json()
        second = (await get(server, path, after=first["last_id"])).json()
        InputItemList.model_validate(first)
    texts = [item["content"][0]["text"] for item in [*first["data"], *second["data"]]]
    assert texts == [f"text {i}" for i in reversed(range(25))]
    assert (len(first["data"]), first["has_more"], second["has_more"]) == (20, True, False)
    assert (first["first_id"], second["last_id"]) == (first["data"][0]["id"], second["data"][-1]["id"])


async def test_input_items_have_an_order_a_limit_and_ids_that_stay(tmp_path) -> None:  # type: ignore[no-untyped-def]
    async with running_server(tmp_path) as server:
        path = f"/v1/responses/{(await create(server, ITEMS))['id']}/input_items"
        up = (await get(server, path, order="asc", limit=3)).json()
        more = (await get(server, path, order="asc", limit=100, after=up["last_id"])).json()
        down = (await get(server, path, order="desc", limit=100)).json()
    async with running_server(tmp_path) as server:
        assert (await get(server, path, order="asc", limit=3)).json() == up
    ids = [item["id"] for item in [*up["data"], *more["data"]]]
    assert len(set(ids)) == 25 and ids == [item["id"] for item in down["data"]][::-1]


async def test_input_items_are_only_the_responses_own() -> None:
    async with running_server() as server:
        parent = await create(server, "first")
        child = await create(server, "second", previous_response_id=parent["id"])
        listed = (await get(server, f"/v1/responses/{child['id']}/input_items")).json()
    assert [item["content"][0]["text"] for item in listed["data"]] == ["second"]


async def test_ids_that_clients_gave_twice_or_empty_do_not_lead_paging_astray() -> None:
    items = [
        {"role": "user", "content": str(i), "id": wanted} for i, wanted in enumerate(["a", "a", "", None, "b"])
    ]
    async with running_server() as server:
        path = f"/v1/responses/{(await create(server, items))['id']}/input_items"
        seen, after = [], {}
        for _ in range(5):
            page = (await get(server, path, order="asc", limit=1, **after)).json()
            InputItemList.model_validate(page)
            seen.append(page["data"][0]["content"][0]["text"])
            after = {"after": page["last_id"]}
    assert seen == ["0", "1", "2", "3", "4"] and page["has_more"] is False


async def test_an_empty_input_lists_nothing() -> None:
    async with running_server() as server:
        listed = (await get(server, f"/v1/responses/{(await create(server, []))['id']}/input_items")).json()
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


async def test_a_wrong_page_is_refused_by_name() -> None:
    async with running_server() as server:
        path = f"/v1/responses/{(await create(server))['id']}/input_items"
        for param, value in (
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "x"),
            ("limit", "²"),
            ("limit", "9" * 5000),
            ("order", "up"),
            ("after", "msg_nobody"),
        ):
            answer = await get(server, path, **{param: value})
            assert (answer.status_code, error_of(answer)["param"]) == (400, param), value[:9]


async def test_models_are_the_built_in_ones_scripts_and_those_of_upstreams() -> None:
    async with stub_server(stub.text(), upstream={"models": None}) as (upstream, server):
        script(server, "mine", "[[turns]]")
        upstream.models = ("m-1", "a/b:c")
        listed = (await get(server, "/v1/models")).json()
        ModelList.model_validate(listed)
        one = (await get(server, "/v1/models/a/b:c")).json()
        none = await get(server, "/v1/models/nobody")
    names = [model["id"] for model in listed["data"]]
    assert {"antiphon/echo", "antiphon/demo", "antiphon/script:mine", "m-1", "a/b:c"} <= set(names)
    assert len(names) == len(set(names)) and one in listed["data"] and one["owned_by"] == "stub"
    assert none.status_code == 404 and error_of(none)["code"] == "model_not_found"


async def test_an_upstream_that_is_away_costs_the_list_only_its_own_models() -> None:
    async with stub_server(stub.text(), upstream={"url": "http://127.0.0.1:9/v1", "models": None}) as (_, server):
        async with asyncio.timeout(40):
            answer = await get(server, "/v1/models")
    assert answer.status_code == 200 and answer.json()["data"][0]["id"] == "antiphon/echo"


async def test_health_and_readiness_are_said_in_one_word() -> None:
    async with running_server() as server:
        health, ready = await get(server, "/health"), await get(server, "/ready")
        for answer in (health, ready):
            Health.model_validate(answer.json())
        server.app._draining = True
        draining = await get(server, "/ready")
        server.app._draining = False
        alive = await get(server, "/health")
    assert (health.status_code, ready.status_code, ready.json()) == (200, 200, {"status": "ready"})
    assert (draining.status_code, draining.json(), alive.status_code) == (503, {"status": "draining"}, 200)


async def test_a_server_without_its_store_is_not_ready_and_is_again_when_it_is_back() -> None:
    async with running_server() as server:
        server.app.backends.journal.healthy = False
        away = await get(server, "/ready")
        await create(server)
        back = await get(server, "/ready")
    assert (away.status_code, away.json()) == (503, {"status": "unavailable"})
    assert back.status_code == 200


async def test_what_is_at_no_path_or_takes_another_method_is_refused_as_such() -> None:
    async with running_server() as server, http(server) as client:
        for method, path, status, code in (
            ("GET", "/v1/nothing", 404, "not_found"),
            ("POST", "/v1/nothing", 404, "not_found"),
            ("GET", "/nothing", 404, "not_found"),
            ("POST", "/nothing", 404, "not_found"),
            ("GET", "/v1/responses/", 404, "not_found"),
            ("GET", "/v1/models/", 404, "model_not_found"),
            ("GET", "/v1/responses", 405, "method_not_allowed"),
            ("PUT", "/v1/responses", 405, "method_not_allowed"),
            ("DELETE", "/v1/responses", 405, "method_not_allowed"),
            ("POST", "/v1/responses/resp_1", 405, "method_not_allowed"),
            ("PATCH", "/v1/responses/resp_1", 405, "method_not_allowed"),
            ("GET", "/v1/responses/resp_1/cancel", 405, "method_not_allowed"),
            ("POST", "/v1/responses/resp_1/input_items", 405, "method_not_allowed"),
            ("POST", "/v1/models", 405, "method_not_allowed"),
            ("DELETE", "/health", 405, "method_not_allowed"),
            ("POST", "/", 405, "method_not_allowed"),
            ("GET", "/../../../../etc/passwd", 404, "not_found"),
            ("GET", "/%2e%2e/%2e%2e/settings.py", 404, "not_found"),
        ):
            answer = await client.request(method, path)
            assert (method, path, answer.status_code, error_of(answer)["code"]) == (method, path, status, code)


async def test_the_page_at_the_root_may_load_nothing_from_elsewhere() -> None:
    async with running_server() as server:
        page = await get(server, "/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]


async def test_an_unknown_model_is_refused_and_leaves_nothing_behind() -> None:
    async with running_server() as server, http(server) as client:
        for name in ("gpt-9", "antiphon/nothing", "antiphon/script:../../x", "antiphon/script:nobody"):
            answer = await client.post("/v1/responses", json=body(model=name, stream=True))
            error = error_of(answer)
            assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
        assert list(server.app.registry) == []
