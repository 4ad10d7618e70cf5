"""Who owns which tool of a request: the server, the client, or the upstream (the provider).

Client-owned tools are handed to the client when the model calls them; provider-owned ones are passed to the
upstream untouched; server-owned ones are executed here, and the model gets to know them as functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.core.assembly.server_call import ServerTool
from antiphon.core.tool_scope import EVERYTHING, ToolScope
from antiphon.errors import RequestError

CLIENT_TOOLS = frozenset(
    {
        "function",
        "custom",
        "namespace",
        "local_shell",
        "shell",
        "apply_patch",
        "computer",
        "computer_use_preview",
        "tool_search",
    }
)
"""Types whose calls a client answers."""

_WEB_SEARCH = re.compile(r"web_search(_preview)?(_\d{4}_\d{2}_\d{2})?")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
"""What function names may look like everywhere."""

Named = tuple[str | None, str]
"""(namespace, name) of a tool of the client."""


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The tools of one request, sorted by owner.

    client: names of the client's own. server: the `mcp` and `web_search` tools executed here. passed: what the
    upstream gets as it is. unasked: names of tools of the server that are offered beside them. scope: what the run
    may have at all.
    """

    client: frozenset[Named] = frozenset()
    server: tuple[Mapping[str, Any], ...] = ()
    passed: tuple[Mapping[str, Any], ...] = ()
    unasked: tuple[str, ...] = ()
    scope: ToolScope = EVERYTHING


def is_web_search(kind: str) -> bool:
    """Whether a tool of this type searches the web, whatever version its name has."""
    return _WEB_SEARCH.fullmatch(kind) is not None


def sort_tools(
    tools: Sequence[Mapping[str, Any]],
    items: Iterable[Mapping[str, Any]] = (),
    *,
    owns_web_search: bool = False,
    native: Collection[str] | None = None,
    ignored: Collection[str] = (),
) -> DeclaredTools:
    """Give every declared tool its owner.

    items: the input, whose `additional_tools` declare tools of the client as well. native: tool types the upstream
    executes itself, None for all. ignored: types that are left out where nobody has them.
    Raises RequestError for a name that is declared twice and for a tool that nobody here can execute.
    """
    client: dict[Named, str] = {}
    server: list[Mapping[str, Any]] = []
    passed: list[Mapping[str, Any]] = []
    for index, tool in enumerate(tools):
        kind, place = str(tool["type"]), f"tools[{index}]"
        hosted = native is not None and kind in native and kind == "mcp"
        if (kind == "mcp" and not hosted) or (owns_web_search and is_web_search(kind)):
            server.append(tool)
        elif kind in CLIENT_TOOLS:
            _name_client_tool(tool, place, client)
            passed.append(tool)
        elif native is None or kind in native:
            passed.append(tool)
        elif kind not in ignored:
            raise RequestError(
                f"Nobody here can execute {kind!r}: the upstream of this model is not declared to have it (its "
                "native_tools), nor to be asked without it (its ignore_tools)"
                + (", and no search provider is configured." if is_web_search(kind) else "."),
                code="unsupported_tool",
                param=f"{place}.type",
            )
    for number, item in enumerate(items):
        if item.get("type") == "additional_tools":
            _name_additional(item, f"input[{number}].tools", client)
    return DeclaredTools(frozenset(client), tuple(server), tuple(passed))


def _name_additional(item: Mapping[str, Any], place: str, client: dict[Named, str]) -> None:
    given = item.get("tools")
    for index, tool in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise RequestError("A tool is an object with a type.", param=f"{place}[{index}]")
        if tool["type"] == "mcp":
            raise RequestError("Declare mcp tools in tools.", code="unsupported_tool", param=f"{place}[{index}]")
        _name_client_tool(tool, f"{place}[{index}]", client)


def _name_client_tool(tool: Mapping[str, Any], place: str, client: dict[Named, str]) -> None:
    if tool["type"] == "namespace":
        namespace = tool.get("name")
        inner = tool.get("tools")
        if not isinstance(namespace, str) or not namespace:
            raise RequestError("This needs a name.", param=f"{place}.name")
        for index, one in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(one, dict):
                _take_name(namespace, one, f"{place}.tools[{index}]", client)
    elif tool["type"] in ("function", "custom"):
        _take_name(None, tool, place, client)


def _take_name(namespace: str | None, tool: Mapping[str, Any], place: str, client: dict[Named, str]) -> None:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise RequestError("This needs a name.", param=f"{place}.name")
    if tool.get("type") == "function":
        check_schema(tool.get("parameters"), f"{place}.parameters")
    earlier = client.setdefault((namespace, name), place)
    if earlier != place:
        raise RequestError(
            f"The tool {name[:80]!r} is declared twice, here and in {earlier}.", param=f"{place}.name"
        )


def check_schema(parameters: Any, place: str) -> None:
    """The parameters of a function: a JSON Schema of an object. Raises RequestError."""
    if parameters is None:
        return
    if not isinstance(parameters, dict):
        raise RequestError("The parameters of a function are a JSON Schema.", param=place)
    properties, required = parameters.get("properties"), parameters.get("required")
    if parameters.get("type", "object") != "object":
        raise RequestError("The parameters of a function are of type object.", param=f"{place}.type")
    if properties is not None and not (
        isinstance(properties, dict) and all(isinstance(one, (dict, bool)) for one in properties.values())
    ):
        raise RequestError("properties is an object of schemas.", param=f"{place}.properties")
    if required is not None and not (
        isinstance(required, list) and all(isinstance(name, str) for name in required)
    ):
        raise RequestError("required is a list of names.", param=f"{place}.required")


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool of the server as it is offered to the model of one run."""

    tool: ServerTool
    description: str
    parameters: Mapping[str, Any]


class ToolRegistry:
    """The tools of one run, by the names under which the model calls them.

    server: what is executed here. for_model: the whole `tools` of a model call.
    """

    def __init__(self, declared: DeclaredTools = DeclaredTools(), offered: Sequence[Offered] = ()) -> None:
        self._declared = declared
        self.server: dict[str, ServerTool] = {}
        taken = {name for _, name in declared.client}
        functions: list[dict[str, Any]] = []
        for one in offered:
            name = _free_name(one.tool, taken)
            taken.add(name)
            self.server[name] = one.tool
            functions.append(
                {
                    "type": "function",
                    "name": name,
                    "description": one.description,
                    "parameters": one.parameters,
                    "strict": False,
                }
            )
        self.for_model: list[Mapping[str, Any]] = [*declared.passed, *functions]

    def knows(self, namespace: str | None, name: str) -> bool:
        """Whether anybody registered this name."""
        return (namespace, name) in self._declared.client or (namespace is None and name in self.server)

    def choice_for_model(self, choice: Any) -> Any:
        """A `tool_choice` in the model's words: tools of the server are functions to it.

        What chose among tools that could not be listed chooses nothing: no upstream takes a choice among none.
        """
        if not isinstance(choice, dict):
            return choice
        if choice.get("type") == "allowed_tools" and isinstance(choice.get("tools"), list):
            tools = [one for given in choice["tools"] for one in self._functions(given)]
            return {**choice, "tools": tools} if tools else "none"
        chosen = self._functions(choice)
        if not chosen:
            return "auto"
        if chosen == [choice]:
            return choice
        if len(chosen) == 1:
            return chosen[0]
        return {"type": "allowed_tools", "mode": "required", "tools": chosen}

    def _functions(self, choice: Any) -> list[Any]:
        kind = choice.get("type") if isinstance(choice, dict) else None
        if kind == "mcp":
            label, name = choice.get("server_label"), choice.get("name")
            return [
                {"type": "function", "name": model_name}
                for model_name, tool in self.server.items()
                if tool.server_label == label and name in (None, tool.name)
            ]
        if isinstance(kind, str) and is_web_search(kind):
            searches = [n for n, tool in self.server.items() if tool.item_type == "web_search_call"]
            return [{"type": "function", "name": name} for name in searches] or [choice]
        return [choice]


def _free_name(tool: ServerTool, taken: set[str]) -> str:
    for name in (_fitting(tool.name), _fitting(f"{tool.server_label}__{tool.name}")):
        if name not in taken:
            return name
    number = 2
    while (name := _fitting(f"{tool.server_label}__{tool.name}__{number}")) in taken:
        number += 1
    return name


def _fitting(name: str) -> str:
    """A name that function names may have; what is too long keeps its beginning and gets a digest."""
    name = _UNSAFE.sub("_", name)
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
