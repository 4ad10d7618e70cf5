"""Models: every one that could answer is open to the tenant, or none is called (acceptance F, G)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.calling import create, error_of
from tests.pipeline.agents import call, post, serving
from tests.session.play import checked, connected, text_of
from tests.support.server import running_server

SMALL_ONLY = [{"id": "acme", "models": ["small"]}, {"id": "other", "models": []}]

REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("an override", {}, {"model": "large"}, "model_not_found"),
    ("an override of an agent", {"model": "small"}, {"model": "large"}, "model_not_found"),
    ("the agent's model", {"model": "large"}, {}, "model_not_allowed"),
    ("the agent's model behind an override", {"model": "large"}, {"model": "small"}, "model_not_allowed"),
    ("a fallback of the agent", {"model": "small", "fallbacks": ["large"]}, {}, "model_not_allowed"),
    ("a fallback behind an override", {"fallbacks": ["other"]}, {"model": "small"}, "model_not_allowed"),
]


@pytest.mark.parametrize(
    ("agent", "fields", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_a_model_that_is_not_open_to_the_tenant_means_no_model_call(
    agent: dict[str, Any], fields: dict[str, Any], code: str
) -> None:
    async with serving(tenant=SMALL_ONLY, agent=[{"name": "a", **agent}]) as (stub, server):
        answer = await post(server, antiphon={"agent": "a"}, **fields)
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (
            {"model_not_found": 404, "model_not_allowed": 403}[code],
            code,
        )
        assert stub.requests == []
        if code == "model_not_allowed":
            assert not any(name in error["message"] for name in ("large", "other"))
            assert answer.headers["x-should-retry"] == "false"


async def test_a_configured_fallback_that_is_closed_to_the_tenant_refuses_the_model_before_it() -> None:
    async with serving(tenant=SMALL_ONLY, fallbacks={"small": ["large"]}) as (stub, server):
        answer = await post(server, model="small")
        assert (answer.status_code, error_of(answer)["code"]) == (403, "model_not_allowed")
        assert stub.requests == []


async def test_closed_and_unknown_models_answer_alike_and_an_empty_list_means_none() -> None:
    async with serving(tenant=SMALL_ONLY) as (stub, server):
        closed, unknown = [await post(server, model=name) for name in ("large", "nobody")]
        assert closed.status_code == unknown.status_code == 404
        assert closed.text.replace("large", "nobody") == unknown.text
        assert (await post(server, "foreign", model="small")).status_code == 404
        assert (await post(server, model="small")).status_code == 200
        assert len(stub.requests) == 1


async def test_an_override_that_does_not_exist_is_an_error_and_never_another_model() -> None:
    async with serving(agent=[{"name": "a", "model": "small"}], default_model="small") as (stub, server):
        answer = await post(server, model="nobody", antiphon={"agent": "a"})
        assert (answer.status_code, error_of(answer)["code"]) == (404, "model_not_found")
        assert stub.requests == []


async def test_without_any_model_every_path_is_a_typed_refusal_and_the_echo_answers_by_name() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for fields in ({}, {"stream": True}, {"background": True}, {"model": "gpt"}):
            answer = await post(server, None, **fields)
            wanted = (404, "model_not_found") if "model" in fields else (400, "model_required")
            assert (answer.status_code, error_of(answer)["code"]) == wanted
        await client.send({"type": "response.create", "input": "hello"})
        assert (await client.recv_error())["error"]["code"] == "model_required"
        assert (await create(server, "hello"))["output"][0]["content"][0]["text"] == "hello"
        events = await client.run("antiphon/echo", "hello")
        assert (checked(events).text, text_of(events)) == ("hello", "hello")


async def test_models_that_are_not_open_are_not_compacted_with_either() -> None:
    async with serving(tenant=SMALL_ONLY) as (stub, server):
        answer = await call(server, "driver", "POST", "/v1/responses/compact", {"model": "large", "input": "x"})
        assert (answer.status_code, error_of(answer)["code"]) == (404, "model_not_found")
        assert stub.requests == []
