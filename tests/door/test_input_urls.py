"""URLs of the own network do not get to an upstream, whichever way an input takes (creates, steers, outputs)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.calling import begin, body, error_of, http, key_of, stub_server, until
from tests.session.held import TOOLS, calling
from tests.support import stub_upstream as stub
from tests.support.server import running_server
from tests.support.ws_client import ws_client

KEY = "sk-test-urls"
KEYS: dict[str, Any] = {"auth": "required", "key": [key_of(KEY)]}


def seen(url: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]


INSIDE, OUTSIDE = seen("http://169.254.169.254/latest"), seen("https://images.example/cat.png")


async def test_with_keys_a_create_may_not_name_a_private_url_and_leaves_nothing_behind() -> None:
    async with stub_server(stub.text(), **KEYS) as (upstream, server):
        async with http(server, KEY) as client:
            refused = await client.post("/v1/responses", json=body(INSIDE, "stub-model"))
            assert (refused.status_code, error_of(refused)["code"]) == (400, "input_url_not_allowed")
            assert error_of(refused)["param"] == "input"
            assert upstream.requests == [] and list(server.app.registry) == []
            assert (await client.post("/v1/responses", json=body(OUTSIDE, "stub-model"))).status_code == 200
        async with ws_client(server.ws_url, api_key=KEY) as socket:
            await socket.create("stub-model", INSIDE)
            assert (await socket.recv_error())["error"]["code"] == "input_url_not_allowed"
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        ({}, True),
        ({"limits": {"private_input_urls": "refuse"}}, False),
        ({**KEYS, "limits": {"private_input_urls": "allow"}}, True),
    ],
)
async def test_the_setting_decides_and_by_default_a_server_for_its_own_machine_allows_it(
    settings: dict[str, Any], taken: bool
) -> None:
    async with running_server(**settings) as server, http(server, KEY) as client:
        answer = await client.post("/v1/responses", json=body(INSIDE))
        assert (answer.status_code == 200) is taken, answer.text


async def test_a_steer_is_held_to_the_same_and_the_run_goes_on() -> None:
    async with running_server(**KEYS) as server:
        model = calling(server.data_dir, 1)
        options = {"tools": TOOLS, "antiphon": {"client_tools": "hold"}}
        run_id = await begin(server, "x", model, key=KEY, **options)
        await until(lambda: server.app.registry.get(run_id).state == "waiting_for_tool")
        async with http(server, KEY) as client:
            refused = await client.post(f"/v1/responses/{run_id}/steer", json={"input": INSIDE})
            assert (refused.status_code, error_of(refused)["code"]) == (400, "input_url_not_allowed")
            taken = await client.post(f"/v1/responses/{run_id}/steer", json={"input": OUTSIDE})
            assert taken.status_code < 300, taken.text


async def test_an_injected_output_is_held_to_the_same_and_the_call_stays_open() -> None:
    async with running_server(**KEYS) as server, ws_client(server.ws_url, api_key=KEY) as socket:
        model = calling(server.data_dir, 1)
        await socket.create(model, "x", tools=TOOLS, antiphon={"client_tools": "hold"})
        events = await socket.recv_until(lambda event: event["type"] == "response.output_item.done")
        (created,) = [event for event in events if event["type"] == "response.created"]
        run_id, call_id = created["response"]["id"], events[-1]["item"]["call_id"]

        async def inject(output: Any) -> dict[str, Any]:
            item = {"type": "function_call_output", "call_id": call_id, "output": output}
            await socket.send({"type": "response.inject", "response_id": run_id, "input": [item]})
            answers = await socket.recv_until(lambda event: event["type"].startswith("response.inject."))
            return answers[-1]

        refused = await inject([{"type": "input_image", "image_url": "http://10.0.0.1/x"}])
        assert (refused["type"], refused["error"]["code"]) == ("response.inject.failed", "input_url_not_allowed")
        assert (await inject("fine"))["type"] == "response.inject.created"
