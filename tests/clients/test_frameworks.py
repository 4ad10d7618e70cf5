"""Agent frameworks that run tools themselves, over their WebSocket transports."""

from __future__ import annotations

import pytest

from tests.clients.checks import WEATHER
from tests.support.sdk_processes import (
    NODE_FOLDER,
    PYTHON_SCRIPTS,
    need_node_sdks,
    need_python_sdks,
    run_script,
)

pytestmark = pytest.mark.clients


async def test_openai_agents_runs_a_tool_with_full_input_chained_and_streamed(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_ws.py", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 3
    assert result["calls"] == 3
    assert result["streamed_raw_events"] > 0


async def test_pydantic_ai_runs_a_tool_on_the_default_lane_and_on_lanes_of_its_own(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "pydantic_ai_ws.py", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 4
    assert result["calls"] == 4


async def test_openai_agents_for_javascript_runs_a_tool_whole_and_streamed(base_url: str) -> None:
    result = await run_script([need_node_sdks(), NODE_FOLDER / "agents_ws.mjs", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 2
    assert result["calls"] == 2
    assert result["rawEvents"] > 0
