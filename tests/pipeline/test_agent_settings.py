"""Agents of the configuration that cannot work: each refused at start with one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from antiphon.app import Antiphon
from antiphon.errors import StartupError
from tests.support.server import test_settings

SHAPE: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "a"}, {"name": "a"}], "two agents of the system tier are named 'a'"),
    (
        [{"name": "a", "tier": "user", "tenant": "default"}, {"name": "a", "tier": "user", "tenant": "default"}],
        "two agents of tenant 'default' are named 'a'",
    ),
    ([{"name": "default"}], "the agent 'default' is built in"),
    ([{"name": "-a"}], "should match pattern"),
    ([{"name": "a", "tier": "user"}], "tenant belongs to tier = 'user'"),
    ([{"name": "a", "tenant": "default"}], "tenant belongs to tier = 'user'"),
    ([{"name": "a", "tier": "user", "tenant": "gone"}], "names tenant 'gone', which is not configured"),
    ([{"name": "a", "model": "m", "fallbacks": ["n", "m"]}], "in a circle: 'm' is named twice"),
    ([{"name": "a", "fallbacks": ["n", "n"]}], "in a circle: 'n' is named twice"),
    ([{"name": "a", "colour": "red"}], "Extra inputs are not permitted"),
    ([{"name": "a", "client_tools": "keep"}], "Input should be 'return' or 'hold'"),
]


@pytest.mark.parametrize(("agents", "line"), SHAPE)
def test_what_is_wrong_with_an_agent_by_itself(tmp_path: Path, agents: list[dict[str, Any]], line: str) -> None:
    with pytest.raises(ValidationError) as refused:
        test_settings(tmp_path, agent=agents)
    assert line in str(refused.value)


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        ({"model": "antiphon/none"}, "agent 'a' names the model 'antiphon/none', which no upstream has"),
        ({"fallbacks": ["antiphon/none"]}, "agent 'a' names the model 'antiphon/none', which no upstream has"),
        ({"context": ["nobody"]}, "agent 'a' names the context provider 'nobody', which is not configured"),
    ],
)
def test_what_an_agent_names_and_nobody_has(tmp_path: Path, agent: dict[str, Any], line: str) -> None:
    with pytest.raises(StartupError) as refused:
        Antiphon(test_settings(tmp_path, agent=[{"name": "a", **agent}]))
    assert refused.value.message == line


def test_a_tool_that_an_agent_or_tenant_lists_and_nobody_has(tmp_path: Path) -> None:
    known = ["current_time", "mcp", "web_search", "code_interpreter", "x_search", "lookup"]
    stub: dict[str, Any] = {"name": "stub", "url": "http://127.0.0.1:1", "models": ["m"]}
    own = {"kind": "http", "name": "lookup", "description": "d", "url": "http://127.0.0.1:1/", "parameters": {}}
    given: dict[str, Any] = {"upstream": [{**stub, "native_tools": ["x_search"]}], "tool": [own]}
    fine = {"agent": [{"name": "a", "tools": known}], "tenant": [{"id": "acme", "tools": known}]}
    Antiphon(test_settings(tmp_path, **given, **fine))
    wrong = {"agent": [{"name": "a", "tools": ["curent_time"]}], "tenant": [{"id": "acme", "tools": ["lokup"]}]}
    with pytest.raises(StartupError) as refused:
        Antiphon(test_settings(tmp_path, **given, **wrong))
    first, second = refused.value.message.splitlines()
    assert first.startswith("tenant 'acme' lists the tool 'lokup', which is no tool")
    assert second.startswith("agent 'a' lists the tool 'curent_time', which is no tool")


def test_one_name_in_three_tiers_and_for_two_tenants_is_no_clash(tmp_path: Path) -> None:
    own = [{"name": "a", "tier": "user", "tenant": tenant} for tenant in ("default", "acme")]
    shared = [{"name": "a", "tier": tier} for tier in ("community", "system")]
    assert len(test_settings(tmp_path, tenant=[{"id": "acme"}], agent=[*own, *shared]).agent) == 4
