"""openai-node, unmodified, over WebSocket and HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.checks import WEATHER, check_refusal, check_runs
from tests.support.sdk_processes import NODE_FOLDER, need_node_sdks, run_script

pytestmark = pytest.mark.clients


async def run(name: str, base_url: str) -> dict[str, Any]:
    return await run_script([need_node_sdks(), NODE_FOLDER / name, base_url])


async def test_a_socket_answers_calls_a_tool_and_survives_a_refusal(base_url: str) -> None:
    result = await run("ws_plain.mjs", base_url)
    await check_runs(result)
    check_refusal(result["refused"], 404, "model_not_found", "model")
    assert WEATHER in result["answer"]


async def test_the_session_helper_finds_every_lane_whole(base_url: str) -> None:
    result = await run("ws_session.mjs", base_url)
    runs = await check_runs(result)
    assert len(runs) == 7
    assert WEATHER in result["answer"]


async def test_http_streams_without_an_event_the_helper_refuses(base_url: str) -> None:
    result = await run("http_stream.mjs", base_url)
    await check_runs(result, "sse")
    assert result["helped"].count("response.completed") == 2
