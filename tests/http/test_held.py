"""Held calls over HTTP: inject, claims, and who an HTTP client is (PROTOCOL 11.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tests.http.calling import UNKNOWN_ID, begin, follow, http
from tests.session.held import TOOLS, calling, output, outputs, state_of, tenants
from tests.session.play import until
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

HOLD: dict[str, Any] = {"client_tools": "hold"}


async def waiting(
    server: RunningServer, calls: int = 1, key: str | None = None, **options: Any
) -> tuple[str, list[str]]:
    """A background run that waits for its calls: its id and theirs."""
    model = calling(server.data_dir, calls)
    run_id = await begin(server, model=model, key=key, tools=TOOLS, antiphon={**HOLD, **options})
    await until(lambda: state_of(server, run_id)["state"] == "waiting_for_tool", "the run waiting")
    return run_id, [call["call_id"] for call in state_of(server, run_id)["pending_calls"]]


async def post(
    server: RunningServer,
    run_id: str,
    verb: str,
    body: Any,
    *,
    key: str | None = None,
    instance: str | None = None,
) -> httpx2.Response:
    headers = {"X-Antiphon-Instance": instance} if instance else {}
    async with http(server, key, **headers) as client:
        return await client.post(f"/v1/responses/{run_id}/{verb}", json=body)


async def inject(server: RunningServer, run_id: str, *items: Any, **who: Any) -> httpx2.Response:
    return await post(server, run_id, "inject", {"input": list(items)}, **who)


def refusal(answer: httpx2.Response, given: list[Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and error; an inject gets its input back."""
    body = answer.json()
    assert {"type", "code", "message", "param"} <= body["error"].keys()
    assert body.get("input") == given
    return answer.status_code, body["error"]


async def test_a_background_run_is_answered_over_http_and_goes_on() -> None:
    async with running_server() as server:
        run_id, call_ids = await waiting(server, 2)
        answer = await inject(server, run_id, *(output(call_id) for call_id in call_ids))
        assert answer.status_code == 200
        assert answer.json().keys() == {"object", "response_id", "sequence_number"}
        assert (answer.json()["object"], answer.json()["response_id"]) == ("response.inject", run_id)
        events = (await follow(server, run_id)).payloads
        assert check_run(events).text == "done"
        assert outputs(events) == [(call_id, "seen") for call_id in call_ids]
        assert answer.json()["sequence_number"] < events[-1]["sequence_number"]


async def test_a_plain_create_waits_for_the_answers_of_another_client() -> None:
    async with running_server() as server, http(server) as client:
        body = {"model": calling(server.data_dir, 1), "input": "x", "tools": TOOLS, "antiphon": HOLD}
        posting = asyncio.create_task(client.post("/v1/responses", json=body))
        await until(lambda: any(state.pending_calls for state in server.app.registry), "the call")
        run = next(iter(server.app.registry))
        await inject(server, run.response_id, output(run.pending_calls[0]["call_id"]))
        response = (await posting).json()
        assert [item["type"] for item in response["output"]] == [
            "function_call",
            "function_call_output",
            "message",
        ]


async def test_every_refusal_has_its_status_its_code_and_the_input_back() -> None:
    async with tenants() as server:
        run_id, (first, second) = await waiting(server, 2, key="anna")
        one = [output(first)]

        async def refused(*items: Any, id: str = run_id, **who: Any) -> tuple[int, str]:
            status, error = refusal(await inject(server, id, *items, **{"key": "bob", **who}), list(items))
            return status, error["code"]

        assert await refused(*one, id=UNKNOWN_ID) == (404, "response_not_found")
        assert await refused(*one, key="foreign") == (404, "response_not_found")
        assert await refused(*one, key="viewer") == (403, "forbidden")
        assert await refused() == (400, "invalid_input")
        assert await refused({"type": "message"}) == (400, "invalid_input")
        assert await refused(output("call_x")) == (400, "unknown_call")
        assert await refused(output(first, fence=3)) == (409, "stale_fence")
        assert (await inject(server, run_id, *one, key="anna")).status_code == 200
        answer = await inject(server, run_id, *one, key="bob")
        status, error = refusal(answer, one)
        assert (status, error["code"], error["winner"]["by"]) == (409, "already_resolved", "key:anna")
        assert answer.headers["x-should-retry"] == "false"
        await inject(server, run_id, output(second), key="anna")
        await follow(server, run_id, "anna")
        assert await refused(output("call_x")) == (409, "response_already_completed")
        assert await refused(*one) == (409, "already_resolved")


@pytest.mark.parametrize("body", [{}, {"input": "text"}, {"input": None}])
async def test_a_body_without_a_list_is_refused(body: Any) -> None:
    async with running_server() as server:
        status, error = refusal(await post(server, UNKNOWN_ID, "inject", body))
        assert (status, error["code"], error["param"]) == (400, "invalid_request", "input")


async def test_a_repeat_is_known_by_its_result_id_or_its_instance() -> None:
    async with running_server() as server:
        run_id, (first, second) = await waiting(server, 2)
        await inject(server, run_id, output(first, result_id="r-1"))
        await inject(server, run_id, output(second), instance="cli")
        again = [
            await inject(server, run_id, output(first, result_id="r-1")),
            await inject(server, run_id, output(second), instance="cli"),
        ]
        assert [answer.json()["duplicate"] for answer in again] == [True, True]
        status, error = refusal(await inject(server, run_id, output(second)), [output(second)])
        assert (status, error["winner"]["instance"]) == (409, "cli")


async def test_claims_over_http_belong_to_the_instance_in_the_header() -> None:
    async with running_server() as server:
        model = calling(server.data_dir, 1)
        async with http(server, **{"X-Antiphon-Instance": "cli"}) as client:
            body = {"model": model, "input": "x", "tools": TOOLS, "antiphon": HOLD, "stream": True}
            async with client.stream("POST", "/v1/responses", json=body) as stream:
                lines = stream.aiter_lines()
                await until(lambda: any(state.pending_calls for state in server.app.registry), "the call")
                run = next(iter(server.app.registry))
                run_id, call_id = run.response_id, run.pending_calls[0]["call_id"]
                named = {"call_id": call_id}
                status, error = refusal(await post(server, run_id, "claim", named))
                assert (status, error["param"]) == (400, "X-Antiphon-Instance")
                status, error = refusal(await post(server, run_id, "claim", named, instance="other"))
                assert (status, error["code"]) == (403, "not_eligible")
                claim = (await post(server, run_id, "claim", {**named, "lease_ms": 60_000}, instance="cli")).json()
                assert (claim["object"], claim["fence"], claim["call_id"]) == ("response.claim", 1, call_id)
                status, error = refusal(await inject(server, run_id, output(call_id)), [output(call_id)])
                assert (status, error["code"], error["instance"]) == (409, "claim_held", "cli")
                kept = {**named, "fence": 1}
                renewed = (await post(server, run_id, "renew", kept, instance="cli")).json()
                assert renewed["fence"] == 1
                status, error = refusal(await post(server, run_id, "renew", {**named, "fence": 2}, instance="cli"))
                assert (status, error["code"]) == (409, "stale_fence")
                released = (await post(server, run_id, "release", kept, instance="cli")).json()
                assert released["expires_at"] is None
                assert (await inject(server, run_id, output(call_id))).status_code == 200
                async for line in lines:
                    if line == "data: [DONE]":
                        break


async def created_by(server: RunningServer, instance: str, **fields: Any) -> tuple[str, str]:
    """A background run of an instance that waits for its call: its id and that of the call."""
    sent = {"model": calling(server.data_dir, 1), "input": "x", "tools": TOOLS, "background": True, **fields}
    async with http(server, **{"X-Antiphon-Instance": instance}) as client:
        run_id = (await client.post("/v1/responses", json={"antiphon": HOLD, **sent})).json()["id"]
    await until(lambda: state_of(server, run_id)["state"] == "waiting_for_tool", "the run waiting")
    return run_id, state_of(server, run_id)["pending_calls"][0]["call_id"]


async def test_the_instance_that_made_a_background_run_claims_its_calls_wherever_it_turns_up() -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        run_id, call_id = await created_by(server, "cli")
        named = {"call_id": call_id}

        async def claim(instance: str) -> tuple[int, str | None]:
            answer = (await post(server, run_id, "claim", named, instance=instance)).json()
            if "error" in answer:
                return 0, answer["error"]["code"]
            released = {**named, "fence": answer["fence"]}
            assert (await post(server, run_id, "release", released, instance=instance)).status_code == 200
            return answer["fence"], None

        assert await claim("other") == (0, "not_eligible")
        assert await claim("cli") == (1, None), "by asking it is there"
        url = f"{server.url}/v1/responses/{run_id}?stream=true"
        async with open_sse("GET", url, headers={"X-Antiphon-Instance": "cli"}):
            await until(lambda: len(state_of(server, run_id)["pending_calls"][0]["eligible"]) == 1, "being asked")
            assert await claim("cli") == (2, None)
        await until(lambda: state_of(server, run_id)["participants"] == [], "the stream being over")
        mine = (await socket.hello(client={"name": "t", "instance_id": "cli"}))["connection_id"]
        attached = await socket.attach(run_id, after="now")
        assert attached["state"]["pending_calls"][0]["eligible"] == [mine]
        reply = await socket.command("antiphon:claim", response_id=run_id, call_id=call_id)
        assert reply["fence"] == 3


async def test_while_the_creator_of_a_background_run_is_attached_nobody_else_is_asked() -> None:
    async with running_server() as server, ws_client(server.ws_url) as owner, ws_client(server.ws_url) as other:
        run_id, call_id = await created_by(server, "cli")
        theirs = (await other.hello(tools=[{"name": "look"}]))["connection_id"]
        assert (await other.attach(run_id, after="now"))["state"]["pending_calls"][0]["eligible"] == [theirs]
        mine = (await owner.hello(client={"name": "t", "instance_id": "cli"}))["connection_id"]
        assert (await owner.attach(run_id, after="now"))["state"]["pending_calls"][0]["eligible"] == [mine]
        reply = await other.command("antiphon:claim", response_id=run_id, call_id=call_id)
        assert reply["code"] == "not_eligible"


@pytest.mark.parametrize(
    ("verb", "body", "param"),
    [
        ("claim", {}, "call_id"),
        ("claim", {"call_id": "c", "lease_ms": 1}, "lease_ms"),
        ("renew", {"call_id": "c"}, "fence"),
        ("release", {"call_id": "c", "fence": "1"}, "fence"),
    ],
)
async def test_a_claim_with_a_bad_field_names_it(verb: str, body: Any, param: str) -> None:
    async with running_server() as server:
        status, error = refusal(await post(server, UNKNOWN_ID, verb, body, instance="cli"))
        assert (status, error["code"], error["param"]) == (400, "invalid_request", param)


async def test_a_deleted_response_has_no_answers_left() -> None:
    async with running_server() as server:
        run_id, call_ids = await waiting(server)
        await inject(server, run_id, output(call_ids[0]))
        await follow(server, run_id)
        async with http(server) as client:
            assert (await client.delete(f"/v1/responses/{run_id}")).status_code == 200
        status, error = refusal(await inject(server, run_id, output(call_ids[0])), [output(call_ids[0])])
        assert (status, error["code"]) == (404, "response_not_found")
