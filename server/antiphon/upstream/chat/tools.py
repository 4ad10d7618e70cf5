"""Tools for a Chat Completions server, which knows only functions with short plain names.

A tool of a namespace becomes the function `<namespace>__<tool>`, a custom tool a function with one string, its
input. `ChatTools` keeps what each function really is, so that the stream can name its calls as the client does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from antiphon.errors import RequestError
from antiphon.upstream.chat.refusal import unsupported

INPUT = "input"
"""The one parameter of a function that stands for a custom tool."""

_NAME_LENGTH = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """What the client calls a tool. kind: type of the item that calls it."""

    name: str
    namespace: str | None = None
    kind: Literal["function_call", "custom_tool_call"] = "function_call"


class ChatTools:
    """The tools of one request. definitions: as the server gets them, in the order they were given."""

    def __init__(self, body: dict[str, Any]) -> None:
        """Raises RequestError for a kind of tool that a Chat Completions server does not have."""
        self._names: dict[tuple[str | None, str], str] = {}
        self._identities: dict[str, ToolIdentity] = {}
        self._definitions: dict[str, dict[str, Any]] = {}
        for tools, place in _tool_lists(body):
            for number, tool in enumerate(tools):
                self._add(tool, None, f"{place}[{number}]")

    @property
    def definitions(self) -> list[dict[str, Any]]:
        return list(self._definitions.values())

    def name_for(self, name: str, namespace: str | None = None) -> str:
        """The function's name for a tool, also for one of the history that is not offered any more."""
        known = self._names.get((namespace, name))
        if known is None:
            wanted = f"{namespace}__{name}" if namespace else name
            known = _FORBIDDEN.sub("_", wanted)
            if len(known) > _NAME_LENGTH or known in self._identities:
                mark = hashlib.sha256(f"{namespace}\n{name}".encode()).hexdigest()[:8]
                known = f"{known[: _NAME_LENGTH - 9]}_{mark}"
            self._names[namespace, name] = known
            self._identities[known] = ToolIdentity(name, namespace)
        return known

    def identity(self, function: str) -> ToolIdentity:
        """The tool behind a function's name; a name nobody offered stays as it is."""
        return self._identities.get(function) or ToolIdentity(function)

    def choose(self, choice: Any) -> tuple[Any, list[dict[str, Any]]]:
        """The choice in the server's words (None: not said), and the tools to offer. Raises RequestError."""
        if choice is None or isinstance(choice, str):
            return choice, self.definitions
        if choice.get("type") == "allowed_tools":
            return self._allowed(choice)
        name = self._offered(choice, "tool_choice")
        return {"type": "function", "function": {"name": name}}, self.definitions

    def _allowed(self, choice: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
        listed = choice.get("tools")
        names = [
            self._offered(one, f"tool_choice.tools[{number}]")
            for number, one in enumerate(listed if isinstance(listed, list) else ())
        ]
        return choice.get("mode") or "auto", [self._definitions[name] for name in dict.fromkeys(names)]

    def _offered(self, choice: Any, place: str) -> str:
        if not isinstance(choice, dict) or choice.get("type") not in ("function", "custom"):
            raise unsupported("Only functions and custom tools can be chosen for this model.", f"{place}.type")
        name = self._names.get((choice.get("namespace"), choice.get("name") or ""))
        if name is None or name not in self._definitions:
            raise RequestError("The chosen tool is not among the tools.", param=f"{place}.name")
        return name

    def _add(self, tool: Any, namespace: str | None, place: str) -> None:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind == "namespace" and namespace is None:
            inner = tool.get("tools")
            for number, one in enumerate(inner if isinstance(inner, list) else ()):
                self._add(one, str(tool.get("name") or ""), f"{place}.tools[{number}]")
            return
        if kind not in ("function", "custom"):
            message = f"The server of this model has no tools of type {str(kind)[:80]!r}."
            raise unsupported(message, f"{place}.type")
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise RequestError("This needs a name.", param=f"{place}.name")
        function = self.name_for(name, namespace)
        define = _function if kind == "function" else _custom
        self._definitions[function] = {"type": "function", "function": {"name": function, **define(tool)}}
        kind_of_call: Any = "function_call" if kind == "function" else "custom_tool_call"
        self._identities[function] = ToolIdentity(name, namespace, kind_of_call)


def _tool_lists(body: dict[str, Any]) -> Iterator[tuple[list[Any], str]]:
    if isinstance(body.get("tools"), list):
        yield body["tools"], "tools"
    items = body.get("input")
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if (
            isinstance(item, dict)
            and item.get("type") == "additional_tools"
            and isinstance(item.get("tools"), list)
        ):
            yield item["tools"], f"input[{number}].tools"


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {}
    if tool.get("description"):
        definition["description"] = tool["description"]
    definition["parameters"] = tool.get("parameters") or {"type": "object", "properties": {}}
    if tool.get("strict") is not None:
        definition["strict"] = tool["strict"]
    return definition


def _custom(tool: dict[str, Any]) -> dict[str, Any]:
    lines = [tool["description"]] if tool.get("description") else []
    given = tool.get("format")
    if isinstance(given, dict) and given.get("type") == "grammar":
        syntax, definition = given.get("syntax"), given.get("definition")
        lines.append(f"The {INPUT} must match this {syntax} grammar:\n{definition}")
    return {
        "description": "\n\n".join(lines) or "Takes free text.",
        "parameters": {
            "type": "object",
            "properties": {INPUT: {"type": "string"}},
            "required": [INPUT],
            "additionalProperties": False,
        },
    }
