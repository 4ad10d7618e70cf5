"""What becomes of calls: bounded, checked, in order, and never the end of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import structlog

from antiphon.errors import ToolError
from antiphon.ports import ToolOutput
from antiphon.tools.execution import ToolCall, ToolResult, execute
from tests.tools.running import WAIT_S, FakeTool, call, context_for

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
    "required": ["city"],
    "additionalProperties": False,
}


async def give(arguments: dict[str, Any], context: Any) -> str:
    return json.dumps(arguments)


@pytest.fixture
async def logged() -> AsyncGenerator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_arguments_that_fit_reach_the_tool_and_its_text_is_the_output() -> None:
    result = await call(FakeTool(give, parameters=SCHEMA), {"city": "Bern", "days": 2})
    assert json.loads(result.output or "") == {"city": "Bern", "days": 2}
    assert (result.call_id, result.error, result.action) == ("call_1", None, None)


async def test_no_text_at_all_counts_as_no_arguments() -> None:
    assert (await call(FakeTool(give), "  ")).output == "{}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{not json", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"city": ' + "[" * 5000 + "]" * 5000 + "}", "not a JSON object"),
        ("{}", "'city' is a required property"),
        ('{"city": 5}', "$.city: 5 is not of type 'string'"),
        ('{"city": "Bern", "days": 8}', "$.days: 8 is greater than the maximum"),
        ('{"city": "Bern", "zip": 1}', "'zip' was unexpected"),
    ],
)
async def test_arguments_that_do_not_fit_never_reach_the_tool_and_the_model_is_told_why(
    arguments: str, said: str
) -> None:
    reached: list[Any] = []

    async def do(arguments: Any, context: Any) -> str:
        reached.append(arguments)
        return ""

    result = await call(FakeTool(do, parameters=SCHEMA), arguments)
    assert said in (result.error or "") and result.output is None
    assert not reached


async def test_the_reason_for_a_huge_argument_is_short() -> None:
    result = await call(FakeTool(give, parameters=SCHEMA), {"city": ["x" * 100_000]})
    assert len(result.error or "") < 500


async def test_a_pattern_of_a_foreign_schema_is_not_run() -> None:
    hostile = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    tool = FakeTool(give, parameters=hostile, server_label="elsewhere")
    assert (await call(tool, {"a": "a" * 64 + "!"})).error is None
    assert "$.a" in ((await call(FakeTool(give, parameters=hostile), {"a": "b"})).error or ""), (
        "one of ours is run"
    )


async def test_a_schema_that_leads_in_a_circle_is_an_error_of_the_call() -> None:
    circle = {"type": "object", "$ref": "#"}
    assert "cannot be applied" in ((await call(FakeTool(give, parameters=circle))).error or "")


async def test_results_stand_in_the_order_of_the_calls_whatever_ends_first() -> None:
    gates = [asyncio.Event() for _ in range(4)]
    told: list[str] = []

    async def do(arguments: dict[str, Any], context: Any) -> str:
        number = arguments["n"]
        await gates[number].wait()
        return str(number)

    def on_done(result: ToolResult) -> None:
        told.append(result.call_id)
        number = int(result.call_id)
        if number:
            gates[number - 1].set()

    calls = [ToolCall(str(n), FakeTool(do), json.dumps({"n": n})) for n in range(4)]
    gates[3].set()
    async with asyncio.timeout(WAIT_S):
        results = await execute(calls, context_for, fan_out=4, on_done=on_done)
    assert [result.output for result in results] == ["0", "1", "2", "3"]
    assert told == ["3", "2", "1", "0"]


async def test_no_more_calls_run_at_once_than_the_fan_out() -> None:
    running = 0
    most = 0

    async def do(arguments: Any, context: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return "done"

    calls = [ToolCall(str(n), FakeTool(do), "{}") for n in range(20)]
    results = await execute(calls, context_for, fan_out=3)
    assert most == 3 and len(results) == 20


async def test_a_tool_that_hangs_is_an_error_after_its_own_timeout_and_is_stopped() -> None:
    stopped = asyncio.Event()

    async def hang(arguments: Any, context: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    result = await call(FakeTool(hang, timeout_s=0.05))
    assert result.error == "The tool did not answer within 0.05 s."
    assert stopped.is_set()


async def test_a_tool_that_will_not_be_cancelled_holds_up_nobody(logged: list[Any]) -> None:
    release = asyncio.Event()

    async def stubborn(arguments: Any, context: Any) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    result = await call(FakeTool(stubborn, timeout_s=0.05))
    release.set()
    assert "did not answer" in (result.error or "")
    assert [line["event"] for line in logged] == ["tool_call_does_not_stop", "tool_called"]


async def test_a_crash_is_an_error_that_shows_neither_its_text_nor_a_traceback(logged: list[Any]) -> None:
    async def crash(arguments: Any, context: Any) -> str:
        raise ValueError("the password is hunter2")

    result = await call(FakeTool(crash), {"secret": "swordfish"})
    assert result.error == "The tool failed (ValueError)."
    assert "hunter2" not in str(logged) and "swordfish" not in str(logged)
    assert logged[0]["error"] == "ValueError" and logged[0]["at"].startswith("test_execution.py:")


async def test_what_is_logged_of_a_call_is_names_and_sizes(logged: list[Any]) -> None:
    await call(FakeTool(give), {"secret": "swordfish"})
    (line,) = logged
    assert "swordfish" not in str(line)
    assert (line["tool"], line["call_id"], line["response_id"], line["ok"]) == ("fake", "call_1", "resp_1", True)
    assert line["arguments_chars"] == 23 and line["output_chars"] == 23


async def test_a_tools_own_error_is_told_to_the_model_up_to_a_bound() -> None:
    async def refuse(arguments: Any, context: Any) -> str:
        raise ToolError("no such city" + "!" * 100_000)

    error = (await call(FakeTool(refuse))).error or ""
    assert error.startswith("no such city!") and len(error) <= 4000


@pytest.mark.parametrize("text", ["x" * 1001, "ä" * 501])
async def test_an_output_over_the_limit_is_an_error_that_names_the_limit(text: str) -> None:
    async def much(arguments: Any, context: Any) -> str:
        return text

    result = await call(FakeTool(much, max_output_bytes=1000))
    assert result.output is None and "1000 bytes" in (result.error or "")


async def test_lone_surrogates_in_an_output_are_mended() -> None:
    async def broken(arguments: Any, context: Any) -> str:
        return "a\ud800b"

    result = await call(FakeTool(broken))
    assert result.output == "a\ufffdb"


async def test_cancelling_stops_all_calls_at_once_also_those_that_wait() -> None:
    started: list[str] = []
    stopped: list[str] = []
    both = asyncio.Event()

    async def hang(arguments: Any, context: Any) -> str:
        started.append(context.call_id)
        if len(started) == 2:
            both.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(context.call_id)
        return ""

    calls = [ToolCall(str(n), FakeTool(hang), "{}") for n in range(5)]
    run = asyncio.create_task(execute(calls, context_for, fan_out=2))
    async with asyncio.timeout(WAIT_S):
        await both.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert sorted(stopped) == sorted(started) == ["0", "1"]


async def test_a_web_search_has_its_action_also_when_it_failed() -> None:
    async def fail(arguments: Any, context: Any) -> ToolOutput:
        raise ToolError("no")

    result = await call(FakeTool(fail, item_type="web_search_call"), {"query": "weather"})
    assert result.action == {"type": "search", "query": "weather"}


async def test_a_tool_that_cancels_itself_is_an_error_and_ends_nothing() -> None:
    async def odd(arguments: Any, context: Any) -> str:
        raise asyncio.CancelledError

    assert (await call(FakeTool(odd))).error == "The call was broken off."
