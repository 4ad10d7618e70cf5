"""The label `antiphon`: built-in and configured functions, and how a run gets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.ports import OpenTools
from antiphon.settings import Settings
from antiphon.tools.build import build_toolbox
from tests.tools.running import ANY, call, named, opened, toolbox
from tests.upstream.calling import FastClock

OWN = {"type": "mcp", "server_label": "antiphon"}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "http", "url": "http://127.0.0.1:1", "parameters": ANY, **more}


def offered(tools: OpenTools) -> list[tuple[list[str], bool]]:
    return [([tool.spec.name for tool in one.tools], one.listed) for one in tools.lists]


async def test_the_time_is_that_of_the_clock_in_the_zone_asked_for() -> None:
    clock = FastClock()
    clock.at = 1_782_907_200.0
    async with toolbox(clock=clock) as box, opened(box, OWN) as tools:
        tool = named(tools)["current_time"]
        assert tool.spec.side_effects is False and tool.spec.needs_approval is False
        assert json.loads((await call(tool)).output or "") == {
            "time": "2026-07-01T12:00:00+00:00",
            "weekday": "Wednesday",
            "timezone": "UTC",
        }
        berlin = await call(tool, {"timezone": "Europe/Berlin"})
        assert json.loads(berlin.output or "")["time"] == "2026-07-01T14:00:00+02:00"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "x" * 1000])
async def test_a_zone_nobody_knows_is_an_error(zone: str) -> None:
    async with toolbox() as box, opened(box, OWN) as tools:
        error = (await call(named(tools)["current_time"], {"timezone": zone})).error or ""
    assert "There is no time zone" in error and len(error) < 300


async def test_a_run_that_asks_for_nothing_gets_what_is_always_offered() -> None:
    async with toolbox(tool=[function("a", always=True), function("b")]) as box:
        assert box.offers_unasked
        async with opened(box) as tools:
            assert offered(tools) == [(["a"], False)]
        async with opened(box, always=["b", "current_time"]) as tools:
            assert offered(tools) == [(["current_time", "a", "b"], False)]


async def test_what_was_asked_for_is_listed_and_not_offered_twice() -> None:
    async with toolbox(tool=[function("a", always=True), function("b", always=True)]) as box:
        async with opened(box, {**OWN, "allowed_tools": ["a"]}) as tools:
            assert offered(tools) == [(["a"], True), (["b"], False)]
        async with opened(box, OWN) as tools:
            assert offered(tools) == [(["current_time", "a", "b"], True)]


async def test_approvals_are_those_of_the_operator_and_more_if_the_request_wants_them() -> None:
    async with toolbox(tool=[function("a", require_approval="always"), function("b")]) as box:
        for asked, expected in ((None, {"a"}), ("never", {"a"}), ("always", {"a", "b", "current_time"})):
            async with opened(box, {**OWN, "require_approval": asked}) as tools:
                assert {n for n, tool in named(tools).items() if tool.spec.needs_approval} == expected
        async with opened(box, {**OWN, "require_approval": "always"}) as tools:
            assert (await call(named(tools)["current_time"])).error is None


async def test_only_tools_that_read_can_be_asked_for() -> None:
    async with toolbox(tool=[function("a", side_effects=False), function("b")]) as box:
        async with opened(box, {**OWN, "allowed_tools": {"read_only": True}}) as tools:
            assert set(named(tools)) == {"current_time", "a"}


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({**OWN, "allowed_tools": ["nobody"]}, "no tool 'nobody'"),
        ({**OWN, "server_url": "https://mcp.example.com"}, "belongs to a server of ours"),
    ],
)
async def test_what_is_not_there_is_refused_before_the_run_begins(tool: dict[str, Any], said: str) -> None:
    async with toolbox(tools={"mcp_allowed_hosts": ["mcp.example.com"]}) as box:
        with pytest.raises(RequestError) as caught:
            box.check([tool])
    assert said in caught.value.message and caught.value.status == 400


async def test_a_name_of_the_run_that_is_not_there_is_an_error_of_its_own_list() -> None:
    async with toolbox() as box, opened(box, always=["nobody"]) as tools:
        assert not box.offers_unasked
        assert [(one.error, one.listed) for one in tools.lists] == [("There is no tool 'nobody'.", False)]


async def test_limits_are_the_tools_own_or_the_common_ones(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["a"]}')
    config = tmp_path / "antiphon.toml"
    own = function("a", timeout_s=3, max_output_bytes=10)
    filed = {"name": "b", "kind": "http", "url": "http://127.0.0.1:1", "parameters_file": "schema.json"}
    settings = Settings(tool=(own, filed), tools={"timeout_s": 9, "max_output_bytes": 20})  # type: ignore[arg-type]
    box = build_toolbox(settings, FastClock(), config)
    tools = named(await box.open([OWN], "acme", []))
    await box.aclose()
    assert (tools["a"].spec.timeout_s, tools["a"].spec.max_output_bytes) == (3, 10)
    assert (tools["b"].spec.timeout_s, tools["b"].spec.max_output_bytes) == (9, 20)
    assert tools["b"].spec.parameters["required"] == ["a"], "the file is seen from the configuration's folder"
