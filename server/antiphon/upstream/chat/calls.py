"""Which call a fragment of `tool_calls` belongs to, for servers whose indices and ids are missing or constant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.upstream.chat.vocabulary import encode


@dataclass(slots=True, eq=False)
class ToolCall:
    """A call as it grows. name: may come in pieces until arguments begin. chunk: the last that told of it."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    chunk: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are an object, to which nothing can be added."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(orjson.loads("".join(self.pieces)), dict)
        except (orjson.JSONDecodeError, TypeError):
            return False


class CallGroups:
    """The calls of one answer, in the order in which they were opened.

    A fragment continues the last call opened on its index (without an index: the last of all), unless it opens a
    new one. It does so with

    - an index nothing was heard of,
    - a new id, if it names the tool as well or the call before it has no arguments yet,
    - another name once arguments have begun, or the same one once they are a whole object,
    - a name, if the same chunk has told of that call already.

    An id known on that index leads to its own call, so that calls may come in turns.
    """

    def __init__(self) -> None:
        self.all: list[ToolCall] = []
        self._last: dict[int | None, ToolCall] = {}
        self._by_id: dict[tuple[int | None, str], ToolCall] = {}
        self._chunk = 0

    def take(self, fragments: Any) -> list[tuple[ToolCall, str]]:
        """The fragments of one chunk: the call of each, and what it adds to the arguments."""
        self._chunk += 1
        listed = fragments if isinstance(fragments, list) else [fragments]
        return [self._take(fragment) for fragment in listed if isinstance(fragment, dict)]

    def _take(self, fragment: dict[str, Any]) -> tuple[ToolCall, str]:
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        index, call_id, name = fragment.get("index"), fragment.get("id"), function.get("name")
        index = index if type(index) is int else None
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            # Some servers give the object itself.
            arguments = "" if arguments is None else encode(arguments).decode()
        call = self._last.get(index)
        if call is not None and not call_id and not name:
            if arguments:
                call.pieces.append(arguments)
            call.chunk = self._chunk
            self._last[None] = call
            return call, arguments
        return self._named(index, _text(call_id), _text(name), arguments), arguments

    def _named(self, index: int | None, call_id: str, name: str, arguments: str) -> ToolCall:
        call = self._by_id.get((index, call_id)) or self._last.get(index)
        if call is None or self._opens(call, call_id, name, arguments):
            call = ToolCall()
            self.all.append(call)
        self._last[index] = self._last[None] = call
        if call_id and not call.id:
            call.id = call_id
        if call_id:
            self._by_id[index, call_id] = call
        if name and not call.pieces and name != call.name:
            call.name = name if name.startswith(call.name) else call.name + name
        if arguments:
            call.pieces.append(arguments)
        call.chunk = self._chunk
        return call

    def _opens(self, call: ToolCall, call_id: str, name: str, arguments: str) -> bool:
        if call_id and call.id and call_id != call.id and (name or not call.pieces):
            return True
        if not name:
            return False
        if call.chunk == self._chunk:
            return True
        if not call.pieces:
            return False
        return name != call.name or (arguments.lstrip().startswith("{") and call.is_whole)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
