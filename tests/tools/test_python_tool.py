"""`kind = "python"`: functions of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from antiphon import entry_loading
from antiphon.errors import StartupError
from antiphon.ports import Tool
from antiphon.tools import python_tool
from antiphon.tools.toolbox import ServerTools
from tests.tools import sample_tools
from tests.tools.running import ANY, call, named, opened, toolbox

HOME = "tests.tools.sample_tools"


def table(function: str, **more: Any) -> dict[str, Any]:
    return {"name": function, "kind": "python", "entry": f"{HOME}:{function}", **more}


async def tool_of(box: ServerTools, name: str) -> Tool:
    async with opened(box, {"type": "mcp", "server_label": "antiphon"}) as tools:
        return named(tools)[name]


async def test_a_pydantic_model_is_the_schema_and_the_docstring_the_description() -> None:
    async with toolbox(tool=[table("order")]) as box:
        tool = await tool_of(box, "order")
        assert tool.spec.description == "Looks up an order."
        assert tool.spec.parameters["properties"]["number"]["type"] == "integer"
        assert (await call(tool, {"number": 7})).output == '{"number":7,"run":"resp_1","day":"2026-07-01"}'
        assert "$.number" in ((await call(tool, {"number": 0})).error or "")
        assert (tool.spec.server_label, tool.spec.item_type, tool.spec.side_effects) == (
            "antiphon",
            "mcp_call",
            True,
        )


async def test_a_plain_function_gets_the_arguments_as_configured_and_runs_in_a_thread() -> None:
    async with toolbox(tool=[table("threaded", parameters=ANY, description="Says\n  where.")]) as box:
        tool = await tool_of(box, "threaded")
        assert tool.spec.description == "Says where."
        assert (await call(tool, {"word": "hello"})).output == "hello from a thread"


async def test_a_function_that_hangs_in_its_thread_costs_the_timeout_and_no_more() -> None:
    async with toolbox(tool=[table("hanging", parameters=ANY, timeout_s=0.1), table("order")]) as box:
        hanging, order = await tool_of(box, "hanging"), await tool_of(box, "order")
        try:
            for _ in range(3):
                assert "within 0.1 s" in ((await call(hanging)).error or "")
            assert (await call(order, {"number": 1})).error is None
            hanging._threads = 32  # type: ignore[attr-defined]
            assert "Too many calls" in ((await call(hanging)).error or "")
        finally:
            sample_tools.release.set()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("refusing", "There is no such order."),
        ("leaving", "The tool tried to end the process."),
        ("leaving_thread", "The tool tried to end the process."),
        ("slipping", "The tool tried to end the process."),
        ("slipping_thread", "The tool tried to end the process."),
        ("odd", "The tool returned something that is neither text nor JSON."),
        ("threaded", "The tool failed (KeyError)."),
    ],
)
async def test_whatever_a_function_does_is_an_error_for_the_model(function: str, said: str) -> None:
    async with toolbox(tool=[table(function, parameters=ANY)]) as box:
        assert (await call(await tool_of(box, function))).error == said


async def test_without_an_entry_the_entry_point_of_its_name_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [EntryPoint("lookup", f"{HOME}:order", python_tool.GROUP)]
    monkeypatch.setattr(
        entry_loading,
        "entry_points",
        lambda group, name: [one for one in installed if (one.group, one.name) == (group, name)],
    )
    async with toolbox(tool=[{"name": "lookup", "kind": "python"}]) as box:
        assert (await call(await tool_of(box, "lookup"), {"number": 7})).error is None
    with pytest.raises(StartupError, match="no installed package has it as an entry point of antiphon.tools"):
        async with toolbox(tool=[{"name": "missing", "kind": "python"}]):
            pass


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (table("threaded"), "has no parameters"),
        (table("threaded", parameters={"type": "strange"}), "no JSON Schema"),
        (table("threaded", parameters={"type": "object", "properties": {"a": {"type": 5}}}), "no JSON Schema"),
        (
            table("threaded", parameters={"type": "object", "properties": {"a": {"pattern": "("}}}),
            "no JSON Schema",
        ),
        (table("missing", parameters=ANY), "cannot be loaded"),
        (table("alone", parameters=ANY), "must take (arguments, context)"),
        (table("NOT_A_FUNCTION", parameters=ANY), "must take (arguments, context)"),
        ({"name": "x", "kind": "python", "entry": "no.such.module:f"}, "cannot be loaded"),
        ({"name": "x", "kind": "python", "entry": "json"}, "package.module:name"),
        ({"name": "x", "kind": "python", "entry": f"{HOME}:odd", "parameters_file": "/no/such"}, "cannot be read"),
        ({"name": "current_time", "kind": "python", "entry": f"{HOME}:order"}, "built-in tool has this name"),
        ({"name": "current_time", "kind": "mcp", "command": "x"}, "built-in tool has this name"),
        ({"name": "web_search", "kind": "python", "entry": f"{HOME}:order"}, "built-in tool has this name"),
    ],
)
async def test_a_tool_that_cannot_work_stops_the_start_with_one_line(tool: dict[str, Any], said: str) -> None:
    with pytest.raises(StartupError) as caught:
        async with toolbox(tool=[tool]):
            pass
    assert (
        said in caught.value.message and "\n" not in caught.value.message and tool["name"] in caught.value.message
    )
