"""openai-python, unmodified, over WebSocket and HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.checks import WEATHER, check_refusal, check_runs
from tests.support.openai_union import validate_with_openai
from tests.support.relay import DOWN, Relay
from tests.support.sdk_processes import PYTHON_SCRIPTS, SCRIPT_S, need_python_sdks, run_script

pytestmark = pytest.mark.clients
ROOT = Path(__file__).parents[2]


async def run(name: str, base_url: str) -> dict[str, Any]:
    return await run_script([need_python_sdks(), PYTHON_SCRIPTS / name, base_url])


async def test_sync_socket_answers_calls_a_tool_and_survives_a_refusal(base_url: str) -> None:
    result = await run("ws_sync.py", base_url)
    await check_runs(result)
    check_refusal(result["refused"], 400, "previous_response_not_found", "previous_response_id")
    assert WEATHER in result["answer"]


async def test_async_socket_chains_calls_a_tool_and_keeps_a_warm_up(base_url: str) -> None:
    result = await run("ws_async.py", base_url)
    runs = await check_runs(result)
    assert len({checked.response_id for checked in runs}) == len(runs)
    assert WEATHER in result["answer"]


async def test_the_async_lane_router_finds_every_lane_whole(base_url: str) -> None:
    result = await run("ws_lanes_async.py", base_url)
    runs = await check_runs(result)
    assert len(runs) == 10
    lanes = [events[0].get("stream_id") for events in result["runs"]]
    assert lanes == ["a", "b.2", "c_3", "d-4", None] * 2


async def test_the_sync_lane_router_forks_and_keeps_an_error_on_its_lane(base_url: str) -> None:
    result = await run("ws_lanes_sync.py", base_url)
    await check_runs(result)
    refusal = check_refusal(result["refused"], 404, "model_not_found", "model")
    assert refusal["stream_id"] == "fork"
    assert WEATHER in result["answer"]


async def test_conversations_are_made_edited_and_talked_in(base_url: str) -> None:
    result = await run("http_conversations.py", base_url)
    await check_runs(result, "sse")
    assert result["said"] == ["hi", "one", "one", "two", "two"]
    assert result["after"] == ["one", "one", "two", "two"]
    assert (result["locked"], result["gone"]) == ("conversation_locked", "conversation_not_found")


async def test_the_sdk_knows_no_parameter_that_our_tables_lack(base_url: str) -> None:
    known = json.loads((ROOT / "tests" / "protocol" / "vendor_parameters.json").read_text(encoding="utf-8"))
    found = await run("parameters.py", base_url)
    assert {name: found[name] for name in ("create", "response")} == {
        name: known[name] for name in ("create", "response")
    }


async def test_http_streams_answers_and_lists_models(base_url: str) -> None:
    result = await run("http_stream.py", base_url)
    await check_runs(result, "sse")
    assert WEATHER in result["answer"]
    assert result["helped"].count("response.completed") == 2


async def test_the_strict_helper_reads_a_run_with_tools_of_the_server_and_of_the_client(base_url: str) -> None:
    result = await run("http_server_tools.py", base_url)
    await check_runs(result, "sse")
    first, second = result["output"]
    assert first == ["mcp_list_tools", "mcp_call", "message", "function_call"]
    assert second == ["mcp_list_tools", "message"]
    assert result["helped"].count("response.mcp_call.completed") == 1
    assert result["answer"] == "Now I know the time and the weather."
    assert json.loads(result["clock"])["timezone"] == "UTC"


async def test_the_beta_connection_answers_a_held_run_of_another_without_hello(base_url: str) -> None:
    result = await run("inject_beta.py", base_url)
    await check_runs(result)
    first, repeated, late = result["replies"]
    assert first["type"] == "response.inject.created"
    assert (repeated["type"], repeated["duplicate"]) == ("response.inject.created", True)
    assert (late["type"], late["error"]["code"]) == ("response.inject.failed", "already_resolved")
    kinds = ["mcp_list_tools", "mcp_call", "message", "function_call", "function_call_output", "message"]
    assert result["items"] == kinds
    assert result["answer"].endswith("Now I know the time and the weather.")


async def test_a_background_run_is_read_from_any_number_cancelled_and_deleted(base_url: str) -> None:
    result = await run("http_background.py", base_url)
    runs = await check_runs(result, "sse")
    assert result["cancelled"] == ["cancelled", "cancelled"]
    assert runs[-1].terminal is not None
    assert runs[-1].terminal["status"] == "cancelled"
    assert result["gone"]


async def test_the_accumulator_projects_every_kind_of_item_and_keeps_what_a_failure_cut(base_url: str) -> None:
    result = await run("ws_scripts.py", base_url)
    await check_runs(result)
    assert result["projected"] == ["reasoning", "message", "function_call", "function_call", "custom_tool_call"]
    assert result["arguments"][0] == '{"id": 9007199254740993, "x": 1.0, "city": "Troms\u00f8"}'
    assert result["arguments"][2].startswith("*** Begin Patch")
    assert result["failed_with"] == "server_error"
    assert result["kept_text"] == "This begins well and then "


async def test_a_steer_is_followed_on_its_lane_or_waits_for_the_output_of_a_call(base_url: str) -> None:
    result = await run("ws_steer.py", base_url)
    await check_runs(result)
    followed, waited = result["notices"]
    await validate_with_openai(followed + waited)
    assert [notice["type"] for notice in followed] == ["response.steer.accepted"] * 2
    assert [notice["type"] for notice in waited] == ["response.steer.accepted", "response.steer.pending"]
    assert {notice["stream_id"] for notice in followed} == {"a"}
    assert result["said"] == [["shorter", "and louder"], ["in Celsius"]]


@pytest.mark.parametrize("settings", [{"timeouts": {"keepalive_s": 0.2}}])
async def test_keepalives_in_a_silence_disturb_neither_router_nor_helper(base_url: str) -> None:
    result = await run("silence.py", base_url)
    runs = await check_runs(result)
    assert [checked.text for checked in runs] == ["before after"] * 2
    for events in result["runs"]:
        assert [event["type"] for event in events].count("keepalive") >= 2
    assert "keepalive" not in result["helped"]


async def test_a_socket_lost_to_the_network_costs_no_event(base_url: str) -> None:
    target = urlsplit(base_url)
    assert target.hostname is not None
    assert target.port is not None
    async with Relay(target.hostname, target.port, record=True) as relay:
        script = asyncio.create_task(run("ws_lost.py", f"http://127.0.0.1:{relay.port}/v1"))
        await relay.wait_seen(b'"word7 "', DOWN, SCRIPT_S)
        relay.reset()
        result = await script
    assert result["code"] is None  # no close frame: the network did it
    assert result["status"] == "in_progress"
    assert 0 < result["head"] < len(result["runs"][0])
    (checked,) = await check_runs(result, "sse")
    assert checked.text == "".join(f"word{number} " for number in range(150))
