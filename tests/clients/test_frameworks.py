"""Agent frameworks that run tools themselves, over their WebSocket transports."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clients.checks import WEATHER
from tests.clients.conftest import SCRIPTS
from tests.support.sdk_processes import (
    NODE_FOLDER,
    PYTHON_SCRIPTS,
    ROOT,
    need_node_sdks,
    need_python_sdks,
    run_script,
)
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.clients

BOTH = "Now I know the time and the weather."
"""What the model of server_tool.toml says once the server and the client have answered."""


async def test_openai_agents_runs_a_tool_with_full_input_chained_and_streamed(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_ws.py", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 3
    assert result["calls"] == 3
    assert result["streamed_raw_events"] > 0


async def test_openai_agents_leaves_a_tool_of_the_server_to_it_and_runs_its_own_once(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_tools_ws.py", base_url])
    assert result["answers"] == [BOTH] * 4
    assert result["served"] == ["Oslo"] * 4
    for items in result["items"]:
        assert [items.count(kind) for kind in ("mcp_call", "function_call", "function_call_output")] == [1, 1, 1]
        assert items.index("mcp_call") < items.index("function_call")


async def test_openai_agents_keeps_a_session_in_a_conversation_and_talks_in_one_by_its_id(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_conversation.py", base_url])
    assert len(result["answers"]) == 4 and all(WEATHER in answer for answer in result["answers"])
    calls = ["function_call", "function_call_output"]
    for kinds in (result["of_session"], result["of_name"]):
        assert [kind for kind in kinds if kind in calls] == calls * 2
        assert kinds[0] == kinds[-1] == "message"


async def test_openai_agents_runs_three_calls_of_one_round_each_once(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_parallel_ws.py", base_url])
    assert result == {"asked": ["Lima", "Oslo", "Rome"], "answer": "Three cities, thank you."}


async def test_openai_agents_runs_held_calls_a_second_time_and_still_loses_no_turn(base_url: str) -> None:
    """Why docs/clients.md says that frameworks which run tools themselves must not hold."""
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "agents_held_ws.py", base_url])
    assert result["reply"] == "response.inject.created"
    assert result["calls"] == 3
    assert result["answer"] == "Three cities, thank you."
    assert "must not hold" in " ".join((ROOT / "docs" / "clients.md").read_text().split())


async def test_pydantic_ai_leaves_a_tool_of_the_server_to_it_and_runs_its_own_once(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "pydantic_ai_server_tool.py", base_url])
    assert result["answers"] == [BOTH] * 2
    assert result["calls"] == 2
    (clock,) = result["clock"]
    assert json.loads(clock)["timezone"] == "UTC"


async def test_pydantic_ai_runs_a_tool_on_the_default_lane_and_on_lanes_of_its_own(base_url: str) -> None:
    result = await run_script([need_python_sdks(), PYTHON_SCRIPTS / "pydantic_ai_ws.py", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 4
    assert result["calls"] == 4


async def test_openai_agents_for_javascript_runs_a_tool_whole_and_streamed(base_url: str) -> None:
    result = await run_script([need_node_sdks(), NODE_FOLDER / "agents_ws.mjs", base_url])
    assert [WEATHER in answer for answer in result["answers"]] == [True] * 2
    assert result["calls"] == 2
    assert result["rawEvents"] > 0
    for mixed in result["mixed"]:
        assert mixed["answer"] == BOTH
        assert [name for kind, name in mixed["items"] if kind == "hosted_tool_call"].count("mcp_call") == 1
        assert [kind for kind, _ in mixed["items"]].count("function_call") == 1
    assert result["served"] == 2


async def test_steering_from_elsewhere_costs_openai_agents_no_turn_and_no_second_tool_call(tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    async with running_server(tmp_path) as server:
        refusing = asyncio.create_task(steer_every_run(server))
        result = await run_script(
            [need_python_sdks(), PYTHON_SCRIPTS / "agents_steered.py", f"{server.url}/v1"],
        )
        refusing.cancel()
        answers = await refusing
    # One that comes when a run has just ended is told that instead.
    codes = {answer["error"]["code"] for answer in answers}
    assert "steering_not_supported" in codes
    assert codes <= {"steering_not_supported", "response_already_completed", "response_not_active"}
    assert result == {"answers": ["Thank you."] * 2, "calls": 2}


async def steer_every_run(server: RunningServer) -> list[dict[str, Any]]:
    """Steer each run once, as it goes on, until cancelled; the answers."""
    steered: set[str] = set()
    answers: list[dict[str, Any]] = []
    async with ws_client(server.ws_url) as client:
        await client.hello()
        try:
            while True:
                for state in [state for state in server.app.registry if state.state == "running"]:
                    if state.response_id not in steered:
                        steered.add(state.response_id)
                        target = {"previous_response_id": state.response_id, "input": "something else"}
                        await client.send({"type": "response.steer", **target})
                        answers.append(await client.recv_on())
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return answers
