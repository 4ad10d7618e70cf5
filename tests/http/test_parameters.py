"""What becomes of every parameter of a create: acted on, passed on, echoed, refused; never dropped (PROTOCOL 5.1).

The table is held against the published schemas: a parameter that is new there and has no line here fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon_protocol.response import Response
from tests.http.calling import MODEL, body, create, error_of, follow, get, http, stub_server
from tests.http.test_conversations import conversation
from tests.support import stub_upstream as stub
from tests.support.http_client import read_sse
from tests.support.schemas import open_responses_fields, validate_open_responses
from tests.support.server import running_server

VENDOR = json.loads(
    (Path(__file__).parents[1] / "protocol" / "vendor_parameters.json").read_text(encoding="utf-8")
)


class Mark:
    """A value that is none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


SAME = Mark("as it was given")
NOWHERE = Mark("not there")


@dataclass(frozen=True)
class Line:
    """given: a value that is not the default. sent: what of it the upstream gets. echoed: what the response says.

    refused: the field that is named with `unsupported_parameter`, or none. only: those of its values that are.
    needs: an upstream that speaks Responses; others cannot act on it.
    """

    given: Any
    sent: Any = SAME
    echoed: Any = SAME
    refused: str = ""
    needs_responses: bool = False


TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}

TABLE: dict[str, Line] = {
    # Passed on and echoed.
    "frequency_penalty": Line(0.5),
    "instructions": Line("Be kind."),
    "max_output_tokens": Line(16),
    "max_tool_calls": Line(3),
    "metadata": Line({"k" * 64: "v" * 512}),
    "parallel_tool_calls": Line(False),
    "presence_penalty": Line(0.5),
    "prompt_cache_key": Line("key"),
    "prompt_cache_retention": Line("24h"),
    "reasoning": Line({"effort": "low", "summary": "auto"}),
    "safety_identifier": Line("u-1"),
    "service_tier": Line("flex"),
    "temperature": Line(0.25),
    "text": Line({"format": FORMAT, "verbosity": "low"}),
    "tool_choice": Line("none"),
    "tools": Line([TOOL]),
    "top_logprobs": Line(20),
    "top_p": Line(0.5),
    "truncation": Line("auto"),
    "user": Line("u-1"),
    # The same, where somebody knows what to do with it.
    "access_programs": Line({"cyber": "standard"}, needs_responses=True),
    "image": Line({"context_compression": "enabled"}, needs_responses=True),
    "prompt": Line({"id": "pmpt_1", "version": "2", "variables": {"city": "Oslo"}}, needs_responses=True),
    "prompt_cache_options": Line({"mode": "explicit"}, needs_responses=True),
    # Passed on. What it asks for is in the output.
    "include": Line(["reasoning.encrypted_content", "message.output_text.logprobs"], echoed=NOWHERE),
    # Acted on here. Delivery and history are ours, so that the upstream always streams and never stores.
    "background": Line(True, sent=NOWHERE),
    "context_management": Line([{"type": "compaction", "compact_threshold": 1000}], sent=NOWHERE, echoed=NOWHERE),
    "conversation": Line({"id": "CONVERSATION"}, sent=NOWHERE),
    "input": Line([{"role": "user", "content": "hi"}], echoed=NOWHERE),
    "model": Line(MODEL),
    "previous_response_id": Line("RESPONSE", sent=NOWHERE),
    "store": Line(False),
    "stream": Line(True, echoed=NOWHERE),
    # Accepted where it asks for what is done anyway; what it could ask for beside that is refused.
    "background_options": Line({"completion_window": "soonest"}, sent=NOWHERE, echoed=NOWHERE),
    "stream_options": Line({"include_obfuscation": False}, sent=NOWHERE, echoed=NOWHERE),
    # Refused.
    "moderation": Line({"model": "omni-moderation-latest"}, refused="moderation"),
}

REFUSED: list[tuple[str, Any, str]] = [
    *((name, line.given, line.refused) for name, line in TABLE.items() if line.refused),
    ("background_options", {"completion_window": "8h"}, "background_options.completion_window"),
    ("background_options", {"continuation_id": "c"}, "background_options.continuation_id"),
    ("stream_options", {"include_obfuscation": True}, "stream_options.include_obfuscation"),
    ("multi_agent", {"enabled": True}, "multi_agent"),
]

OUT_OF_RANGE: list[tuple[str, Any, str]] = [
    ("access_programs", "cyber", "access_programs"),
    ("background_options", {"completion_window": "1h"}, "background_options.completion_window"),
    ("image", "small", "image"),
    ("input", [{"role": "user", "content": "x", "id": "é" * 513}], "input[0].id"),
    ("max_output_tokens", 15, "max_output_tokens"),
    ("max_tool_calls", 0, "max_tool_calls"),
    ("metadata", {"k" * 65: "v"}, "metadata"),
    ("metadata", {"k": "v" * 513}, "metadata"),
    ("metadata", {str(n): "v" for n in range(17)}, "metadata"),
    ("prompt", {"version": "2"}, "prompt.id"),
    ("prompt", "pmpt_1", "prompt"),
    ("prompt_cache_options", "explicit", "prompt_cache_options"),
    ("prompt_cache_retention", 5, "prompt_cache_retention"),
    ("stream_options", {"include_obfuscation": "no"}, "stream_options.include_obfuscation"),
    ("top_logprobs", 21, "top_logprobs"),
    ("truncation", "often", "truncation"),
]

WITHOUT_US = {"input_transformations", "moderation", "prompt_cache_diagnostics", "tool_usage"}
"""Fields of a response that tell what the vendor's own service did."""


def test_every_parameter_of_the_published_schemas_has_a_line() -> None:
    published = set(VENDOR["create"]) | open_responses_fields("CreateResponseBody")
    assert published == TABLE.keys()


@pytest.mark.parametrize("name", [name for name, line in TABLE.items() if not line.refused])
async def test_a_parameter_reaches_whom_the_table_says_and_is_echoed_from_the_first_event_on(name: str) -> None:
    line = TABLE[name]
    async with stub_server(stub.text(1)) as (upstream, server):
        given = line.given
        if given == "RESPONSE":
            given = (await create(server, "before", model=MODEL))["id"]
        if given == {"id": "CONVERSATION"}:
            given = {"id": await conversation(server)}
        before = len(upstream.requests)
        fields = {**body("hi", model=MODEL), "stream": True, name: given}
        events = (await read_sse("POST", f"{server.url}/v1/responses", json=fields)).payloads
        sent = (await upstream.request(before)).body
    wanted = {SAME: given, NOWHERE: NOWHERE}
    if name == "input":
        assert sent["input"] == given
    elif name in ("store", "stream"):
        assert (sent["store"], sent["stream"]) == (False, True)
    else:
        assert sent.get(name, NOWHERE) == wanted.get(line.sent, line.sent)
    shown = [event["response"] for event in events if "response" in event]
    assert len(shown) >= 3
    for response in shown:
        assert response.get(name, NOWHERE) == wanted.get(line.echoed, line.echoed), response


@pytest.mark.parametrize(("name", "value", "param"), REFUSED, ids=lambda value: str(value)[:40])
async def test_what_no_run_here_can_have_is_refused_before_anybody_is_asked(
    name: str, value: Any, param: str
) -> None:
    async with stub_server(stub.text(1)) as (upstream, server), http(server) as client:
        answer = await client.post("/v1/responses", json={**body(model=MODEL), "background": True, name: value})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", param)
        assert not upstream.requests


@pytest.mark.parametrize(("name", "value", "param"), OUT_OF_RANGE, ids=lambda value: str(value)[:40])
async def test_what_is_out_of_range_is_refused_by_name(name: str, value: Any, param: str) -> None:
    async with running_server() as server, http(server) as client:
        answer = await client.post("/v1/responses", json={**body(), name: value})
        assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")
        assert str(error_of(answer)["param"]).startswith(param)


@pytest.mark.parametrize("name", [name for name, line in TABLE.items() if line.needs_responses])
@pytest.mark.parametrize("model", [MODEL, "antiphon/echo"], ids=["chat", "built in"])
async def test_what_only_a_responses_server_knows_is_refused_for_other_models(name: str, model: str) -> None:
    async with stub_server(stub.text(1), upstream={"api": "chat"}) as (upstream, server), http(server) as client:
        answer = await client.post("/v1/responses", json={**body(model=model), name: TABLE[name].given})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", name)
        assert not upstream.requests


async def test_a_response_is_whole_in_its_first_event_its_last_and_afterwards() -> None:
    fields = {name: line.given for name, line in TABLE.items() if line.needs_responses or name == "user"}
    retention = {"prompt_cache_retention": "24h"}
    async with stub_server(stub.text(1)) as (_, server):
        made = await create(server, model=MODEL, **fields, **retention)
        events = (await follow(server, made["id"])).payloads
        shown = [event["response"] for event in events if "response" in event]
        shown.append((await get(server, f"/v1/responses/{made['id']}")).json())
    assert [response["status"] for response in shown] == ["in_progress", "in_progress", "completed", "completed"]
    published = set(VENDOR["response"]) | open_responses_fields("ResponseResource")
    for response in shown:
        assert published - response.keys() == WITHOUT_US
        assert not response.keys() - published, "and nothing that nobody has published"
        Response.model_validate(response)
    for event in events:
        validate_open_responses(event)
