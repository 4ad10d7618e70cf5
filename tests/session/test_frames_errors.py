"""Every refusal of a frame has the one envelope (PROTOCOL 7.2, 12; field issue P-05)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from antiphon_protocol.codes import CODES
from tests.session.play import connected, response_id, started, words, write_script
from tests.support.server import running_server
from tests.support.ws_client import Event, WsClient

ELSEWHERE = {
    "owner_unavailable",  # tests/elsewhere
    # HTTP alone has these.
    "unsupported_media_type",
    "payload_too_large",
    "not_found",
    "method_not_allowed",
    "conversation_locked",
    "counting_not_supported",
    "invalid_api_key",
    "host_not_allowed",
    "origin_not_allowed",
    "forwarded_not_allowed",
    "epoch_changed",
    "cursor_in_future",
    "cursor_expired",
    # Provoked in files of their own: age, drain, tool outputs, lanes of attachments, queue, faults.
    "websocket_connection_limit_reached",
    "server_draining",
    "tool_output_missing",
    "tool_output_unknown",
    "tool_output_duplicate",
    "lane_in_use",
    "websocket_stream_limit_reached",
    "too_many_queued",
    "server_error",
    "storage_unavailable",
    # Steering (test_steer*.py).
    "response_not_active",
    "steering_not_supported",
    "successor_creation_failed",
    "too_many_pending_steers",
    # Held calls (test_held_*.py).
    "already_resolved",
    "claim_held",
    "invalid_input",
    "not_eligible",
    "response_already_completed",
    "stale_fence",
    "unknown_call",
    # Agents, models, middlewares, skills (tests/pipeline, tests/hooks).
    "denied",
    "middleware_timeout",
    "model_not_allowed",
    "skill_unavailable",
    # Identity (tests/identity).
    "authentication_required",
    "identity_unavailable",
    "invalid_ticket",
    "invalid_token",
    "token_expired",
    # The door (tests/door, tests/transport).
    "headers_too_large",
    "input_url_not_allowed",
    "rate_limited",
    "request_timeout",
    "too_many_connections",
    # Quotas, budgets, stops (tests/governance, tests/http/test_admin.py).
    "budget_exceeded",
    "emergency_stop",
    "quota_exceeded",
    "tenant_not_found",
    "tenant_paused",
    "too_many_runs",
}
CREATE: dict[str, Any] = {"type": "response.create", "model": "antiphon/echo", "input": "x"}
SIMPLE = [
    ("invalid_json", [], 400, None),
    ("unsupported_event_type", {"type": "response.destroy"}, 400, "type"),
    ("unsupported_event_type", {"model": "antiphon/echo"}, 400, "type"),
    ("model_required", {"type": "response.create"}, 400, "model"),
    ("agent_not_found", {**CREATE, "model": "agent:nobody"}, 404, "antiphon.agent"),
    ("invalid_request", {**CREATE, "model": "agent:-"}, 400, "model"),
    ("invalid_request", {**CREATE, "antiphon": {"agent": "a b"}}, 400, "antiphon.agent"),
    ("invalid_request", {**CREATE, "temperature": "hot"}, 400, "temperature"),
    ("invalid_request", {**CREATE, "input": [{"role": "user"}]}, 400, "input[0].content"),
    ("invalid_request", {**CREATE, "include": ["everything"]}, 400, "include"),
    ("invalid_request", {"type": "response.cancel"}, 400, "response_id"),
    ("invalid_request", {"type": "response.steer", "input": "x"}, 400, "previous_response_id"),
    ("invalid_request", {"type": "response.inject", "response_id": "resp_x"}, 400, "input"),
    ("conversation_not_found", {**CREATE, "conversation": "conv_1"}, 404, "conversation"),
    ("unsupported_parameter", {**CREATE, "multi_agent": {"enabled": True}}, 400, "multi_agent"),
    ("invalid_stream_id", {**CREATE, "stream_id": ""}, 400, "stream_id"),
    ("model_not_found", {**CREATE, "model": "gpt-9"}, 404, "model"),
    ("model_not_found", {**CREATE, "model": "antiphon/script:none"}, 404, "model"),
    ("previous_response_not_found", {**CREATE, "previous_response_id": "resp_x"}, 400, "previous_response_id"),
    (
        "previous_response_not_found",
        {**CREATE, "previous_response_id": "' OR 1=1 --"},
        400,
        "previous_response_id",
    ),
    ("response_not_found", {"type": "response.cancel", "response_id": "resp_x"}, 404, "response_id"),
    ("item_not_found", {**CREATE, "input": [{"type": "item_reference", "id": "msg_x"}]}, 400, "input[0]"),
    (
        "invalid_compaction",
        {**CREATE, "input": [{"type": "compaction", "encrypted_content": "antiphon1.x"}]},
        400,
        "input[0]",
    ),
    (
        "unsupported_tool",
        {**CREATE, "input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}]},
        400,
        "input[0].tools[0]",
    ),
]
PROVOKED_BELOW = {"response_not_continuable", "response_in_progress", "idempotency_conflict", "forbidden"}


def hold(event: Event, code: str, status: int, param: str | None, lane: str | None = None) -> None:
    """The envelope, field by field, as strict clients decode it."""
    assert event["type"] == "error"
    assert type(event["status"]) is int
    assert event.get("stream_id") == lane
    error = event["error"]
    assert (error["code"], event["status"], error["param"]) == (code, status, param)
    assert isinstance(error["type"], str)
    assert error["message"]
    assert event.get("headers") == error.get("headers")


@pytest.mark.parametrize(("code", "frame", "status", "param"), SIMPLE)
async def test_a_refusal_has_the_whole_envelope_and_the_socket_goes_on(
    code: str, frame: Any, status: int, param: str | None
) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send(frame)
        hold(await client.recv_error(), code, status, param)
        lane = "main" if isinstance(frame, dict) and frame.get("type") == "response.create" else None
        if lane and "stream_id" not in frame:
            await client.send({**frame, "stream_id": lane})
            hold(await client.recv_error(lane), code, status, param, lane)
        assert (await client.run(input="still here"))[-1]["type"] == "response.completed"


def test_every_code_of_a_request_is_provoked_somewhere() -> None:
    known = {code for code, spec in CODES.items() if "request" in spec.place}
    assert known == {code for code, *_ in SIMPLE} | PROVOKED_BELOW | ELSEWHERE


async def test_a_failed_parent_and_one_in_progress_have_their_own_codes() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        failing = write_script(server.data_dir, "failing", [{"error": {"code": "x", "message": "no"}}])
        slow = write_script(server.data_dir, "slow", [{"delay_s": 30}])
        failed = response_id(await client.run(failing))
        await client.create(previous_response_id=failed)
        hold(await client.recv_error(), "response_not_continuable", 400, "previous_response_id")
        await client.create(slow, stream_id="slow")
        running = await started(client, "slow")
        await client.create(previous_response_id=running)
        hold(await client.recv_error(), "response_in_progress", 409, "previous_response_id")
        await client.send({"type": "response.cancel", "response_id": running})
        assert (await client.collect_run("slow"))[-1]["response"]["status"] == "cancelled"


async def test_an_idempotency_key_with_another_body_is_a_conflict() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.run(input="one", idempotency_key="k")
        await client.create(input="two", idempotency_key="k", stream_id="other")
        conflict = await client.recv_error("other")
        assert (conflict["status"], conflict["error"]["code"]) == (409, "idempotency_conflict")


async def test_what_a_role_does_not_allow_is_forbidden() -> None:
    keys = [("watch", "viewer"), ("drive", "driver"), ("other", "driver")]
    key = tuple({"sha256": hashlib.sha256(k.encode()).hexdigest(), "name": k, "role": role} for k, role in keys)
    async with (
        running_server(auth="required", key=key) as server,
        connected(server.ws_url, api_key="watch") as viewer,
        connected(server.ws_url, api_key="drive") as driver,
        connected(server.ws_url, api_key="other") as other,
    ):
        await viewer.create(stream_id="v")
        hold(await viewer.recv_error("v"), "forbidden", 403, None, "v")
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        await driver.create(slow)
        running = await started(driver)
        for stranger in (viewer, other):
            await stranger.send({"type": "response.cancel", "response_id": running})
            hold(await stranger.recv_error(), "forbidden", 403, None)
            await stranger.hello()
            refused = await stranger.command("antiphon:cancel", response_id=running)
            assert (refused["type"], refused["code"]) == ("antiphon:error", "forbidden")
            assert (await stranger.attach(running))["mode"] == "replay"
        await driver.send({"type": "response.cancel", "response_id": running})
        assert (await driver.collect_run())[-1]["response"]["status"] == "cancelled"


async def steered(client: WsClient, **frame: Any) -> Event:
    await client.send(frame)
    return await client.recv()


async def test_an_injection_that_cannot_be_is_handed_back_whole() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        await client.create(slow, stream_id="slow")
        seen = await client.recv_until(lambda event: event["type"].endswith("text.delta"), stream_id="slow")
        run_id, last = response_id(seen), seen[-1]["sequence_number"]
        output = {"type": "function_call_output", "call_id": "c", "output": "1", "odd": [1, None]}
        for given, code in (([output, {"odd": 1}], "invalid_input"), ([output], "unknown_call")):
            failed = await steered(client, type="response.inject", response_id=run_id, input=given)
            assert (failed["type"], failed["error"]["code"]) == ("response.inject.failed", code)
            assert (failed["input"], failed["response_id"]) == (given, run_id)
            assert (failed["stream_id"], failed["sequence_number"]) == ("slow", last)
        unknown = await steered(client, type="response.inject", response_id="resp_x", input=[output])
        assert (unknown["error"]["code"], unknown["sequence_number"]) == ("response_not_found", 0)
        assert "stream_id" not in unknown
        await client.send({"type": "response.cancel", "response_id": run_id})
        assert await client.recv_until(lambda e: e["type"] == "response.incomplete", stream_id="slow")
