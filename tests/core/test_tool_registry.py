"""Owners of tools, and the names under which the model calls those of the server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.server_call import ServerTool
from antiphon.core.tool_registry import DeclaredTools, Offered, ToolRegistry, sort_tools
from antiphon.errors import RequestError

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
MCP = {"type": "mcp", "server_label": "s"}


def offered(name: str, label: str = "s", **fields: Any) -> Offered:
    return Offered(ServerTool(name, label, **fields), f"Does {name}.", {"type": "object"})


def registry(*tools: Offered, client: set[tuple[str | None, str]] | None = None) -> ToolRegistry:
    return ToolRegistry(DeclaredTools(client=frozenset(client or ())), tools)


@pytest.mark.parametrize(
    "kind",
    ["local_shell", "shell", "apply_patch", "computer", "computer_use_preview", "tool_search"],
)
def test_tools_that_act_on_a_clients_machine_are_the_clients(kind: str) -> None:
    tools = [{"type": kind}]
    for native in (None, ()):
        declared = sort_tools(tools, native=native)
        assert (declared.server, declared.passed) == ((), tuple(tools))


@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_preview", "web_search_2025_08_26", "web_search_preview_2025_03_11"]
)
def test_a_web_search_belongs_to_who_has_it(kind: str) -> None:
    tool = {"type": kind}
    assert sort_tools([tool], owns_web_search=True, native=()).server == (tool,)
    assert sort_tools([tool], native=None).passed == (tool,)
    assert sort_tools([tool], native=(kind,)).passed == (tool,)
    with pytest.raises(RequestError) as refused:
        sort_tools([tool], native=())
    assert (refused.value.code, refused.value.status) == ("unsupported_tool", 400)
    assert kind in refused.value.message and "search provider" in refused.value.message


def test_tools_of_kinds_nobody_knows_are_passed_on_where_the_upstream_may_have_them() -> None:
    tool = {"type": "from_the_future", "name": "x", "n": [None]}
    assert sort_tools([tool, tool]).passed == (tool, tool)
    with pytest.raises(RequestError, match="from_the_future"):
        sort_tools([tool], native=())
    assert sort_tools([tool], native=(), ignored=("from_the_future",)).passed == ()


def test_an_upstream_that_executes_mcp_itself_keeps_it() -> None:
    assert sort_tools([MCP], native=("mcp",)).passed == (MCP,)
    assert sort_tools([MCP], native=None).server == (MCP,)


def test_tools_that_come_with_the_input_are_the_clients_too() -> None:
    item = {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}
    known = ToolRegistry(sort_tools([], [item]))
    assert known.knows(None, "exec")
    with pytest.raises(RequestError, match="twice"):
        sort_tools([{"type": "function", "name": "exec"}], [item])
    with pytest.raises(RequestError, match="mcp"):
        sort_tools([], [{**item, "tools": [MCP]}])


def test_names_of_namespaces_are_apart_and_known() -> None:
    space = {"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "run"}]}
    declared = ToolRegistry(sort_tools([space, {**space, "name": "b"}, {"type": "function", "name": "run"}]))
    assert declared.knows("a", "run") and declared.knows("b", "run") and declared.knows(None, "run")
    assert not declared.knows("c", "run") and not declared.knows("a", "walk")


names = st.text(min_size=1, max_size=100) | st.sampled_from(["do", "do.it", "do_it", "s__do", "x" * 64, "x" * 65])


@given(
    st.lists(st.tuples(names, st.sampled_from(["s", "t", "s__s"])), unique=True, max_size=8),
    st.sets(names, max_size=3),
)
def test_every_tool_of_the_server_gets_a_name_of_its_own_that_fits_and_leads_back(
    tools: list[tuple[str, str]], client: set[str]
) -> None:
    known = registry(*(offered(name, label) for name, label in tools), client={(None, name) for name in client})
    assert [(tool.name, tool.server_label) for tool in known.server.values()] == tools
    assert all(FITS.fullmatch(name) for name in known.server)
    assert not known.server.keys() & client
    assert [function["name"] for function in known.for_model] == list(known.server)
    assert all(known.knows(None, name) for name in known.server)


def test_names_that_fit_are_kept_and_equal_ones_of_two_servers_told_apart() -> None:
    known = registry(offered("do"), offered("do", "t"), offered("do.it"), offered("do_it"))
    assert list(known.server) == ["do", "t__do", "do_it", "s__do_it"]


def test_the_model_gets_what_is_passed_on_and_the_servers_tools_as_functions() -> None:
    look = {"type": "function", "name": "look"}
    known = ToolRegistry(sort_tools([look, MCP]), [offered("do")])
    assert known.for_model == [
        look,
        {
            "type": "function",
            "name": "do",
            "description": "Does do.",
            "parameters": {"type": "object"},
            "strict": False,
        },
    ]


DO, OTHER = {"type": "function", "name": "do"}, {"type": "function", "name": "t__do"}
LOOK = {"type": "function", "name": "look"}


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, None),
        ("required", "required"),
        (LOOK, LOOK),
        ({"type": "mcp", "server_label": "t"}, OTHER),
        ({"type": "mcp", "server_label": "t", "name": "do"}, OTHER),
        (
            {"type": "mcp", "server_label": "s"},
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [DO, {"type": "function", "name": "web_search"}],
            },
        ),
        ({"type": "web_search_preview"}, {"type": "function", "name": "web_search"}),
        ({"type": "mcp", "server_label": "gone"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [LOOK, {"type": "mcp", "server_label": "t"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [LOOK, OTHER]},
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "gone"}]}, "none"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": ["odd"]},
            {"type": "allowed_tools", "mode": "auto", "tools": ["odd"]},
        ),
    ],
)
def test_a_choice_is_said_in_the_models_words(choice: Any, read: Any) -> None:
    known = registry(offered("do"), offered("do", "t"), offered("web_search", item_type="web_search_call"))
    assert known.choice_for_model(choice) == read


def test_without_a_search_of_ours_a_choice_of_it_is_the_upstreams() -> None:
    assert registry(offered("do")).choice_for_model({"type": "web_search"}) == {"type": "web_search"}
