"""The input of a Responses body as the messages of a Chat Completions body."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from antiphon.core.assembly.server_call import error_text
from antiphon.errors import RequestError
from antiphon.upstream.chat.content import content, reasoning_text, tool_output
from antiphon.upstream.chat.refusal import unsupported
from antiphon.upstream.chat.tools import INPUT, ChatTools

Message = dict[str, Any]

_LEFT_OUT = frozenset(
    {
        "additional_tools",  # `ChatTools` has read them
        "code_interpreter_call",  # what hosted tools did; the answer that came of it follows as a message
        "file_search_call",
        "mcp_approval_request",  # between the client and the server that asks
        "mcp_approval_response",
        "mcp_list_tools",  # tools are told in every request
        "web_search_call",
    }
)
"""Items that say nothing a Chat Completions server would miss."""

_ID_LENGTH = 40
"""OpenAI refuses longer ids of calls in Chat Completions."""

_NO_TEXT = "(The output follows as a message.)"


class Transcript:
    """Builds the messages item by item. Chat Completions wants more order than the Responses API:

    calls made together stand in one assistant message, and right behind it a tool message for each of them. So
    what an input says between calls and their outputs waits until the last of them is answered.
    """

    def __init__(self, tools: ChatTools) -> None:
        self._tools = tools
        self._messages: list[Message] = []
        self._assistant: Message | None = None
        """The assistant's message that still grows."""
        self._reasoning = ""
        """Thoughts that belong to the assistant's next message."""
        self._ids: dict[str, list[str]] = {}
        """The ids of calls without an output, by the id they have in the input: some servers repeat theirs."""
        self._used: set[str] = set()
        self._waiting: list[Message] = []

    def add(self, item: dict[str, Any], place: str) -> None:
        """Take an item. Raises RequestError, naming `place`, for one that Chat Completions cannot say."""
        kind = item.get("type") or "message"
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, item, place)
        elif kind not in _LEFT_OUT:
            message = f"The server of this model takes no items of type {str(kind)[:80]!r}."
            raise unsupported(message, f"{place}.type")

    def messages(self) -> list[Message]:
        """All of them, the system's first ones joined: templates of many models want one, at the beginning."""
        self._ids.clear()
        self._release()
        first = next((i for i, m in enumerate(self._messages) if m["role"] != "system"), len(self._messages))
        heads = [message["content"] for message in self._messages[:first]]
        if len(heads) > 1 and all(isinstance(head, str) for head in heads):
            return [{"role": "system", "content": "\n\n".join(heads)}, *self._messages[first:]]
        return self._messages

    def _message(self, item: dict[str, Any], place: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._say(content(item.get("content"), f"{place}.content", joint=""))
        elif role in ("user", "system", "developer"):
            # Many servers know no developer.
            said = content(item.get("content"), f"{place}.content")
            self._put({"role": "user" if role == "user" else "system", "content": said})
        else:
            raise RequestError("A role is user, assistant, system or developer.", param=f"{place}.role")

    def _say(self, said: str | list[dict[str, Any]]) -> None:
        message = self._assistant
        if message is None or "tool_calls" not in message:
            self._with_thoughts(self._speaking())["content"] = said
        elif said:
            # Behind calls that wait for their outputs there is no place for a message of its own.
            before = message["content"] or ""
            both = before + said if isinstance(before, str) and isinstance(said, str) else None
            message["content"] = both or [*_as_parts(before), *_as_parts(said)]

    def _think(self, item: dict[str, Any], place: str) -> None:
        text = reasoning_text(item)
        if not text:
            return  # encrypted: only who wrote it can read it
        self._reasoning = f"{self._reasoning}\n{text}" if self._reasoning else text
        if self._assistant is not None and "tool_calls" in self._assistant:
            self._with_thoughts(self._assistant)

    def _function_call(self, item: dict[str, Any], place: str) -> None:
        arguments = item.get("arguments")
        self._call(item, arguments if isinstance(arguments, str) and arguments else "{}")

    def _custom_call(self, item: dict[str, Any], place: str) -> None:
        self._call(item, orjson.dumps({INPUT: item.get("input") or ""}).decode())

    def _call(self, item: dict[str, Any], arguments: str) -> None:
        given = str(item.get("call_id") or "")
        call_id = self._fresh(given)
        self._ids.setdefault(given, []).append(call_id)
        namespace = item.get("namespace")
        name = self._tools.name_for(str(item.get("name") or ""), namespace if isinstance(namespace, str) else None)
        message = self._with_thoughts(self._assistant or self._speaking())
        function = {"name": name, "arguments": arguments}
        message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})

    def _output(self, item: dict[str, Any], place: str) -> None:
        given = str(item.get("call_id") or "")
        text, rest = tool_output(item.get("output"), f"{place}.output")
        self._answer(given, text or (_NO_TEXT if rest else ""))
        if rest:
            self._waiting.append({"role": "user", "content": rest})
        if not self._ids:
            self._release()

    def _mcp_call(self, item: dict[str, Any], place: str) -> None:
        """A call with its output in one item."""
        given = str(item.get("id") or "mcp")
        self._function_call({**item, "call_id": given, "namespace": None}, place)
        output = item.get("output") or (error_text(item["error"]) if item.get("error") else "")
        self._answer(given, output if isinstance(output, str) else orjson.dumps(output).decode())
        if not self._ids:
            self._release()

    def _answer(self, given: str, text: str) -> None:
        """The tool message stands right behind the calls, whatever waits."""
        calls = self._ids.get(given)
        call_id = calls.pop(0) if calls else given
        if not calls:
            self._ids.pop(given, None)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
        if not self._ids:
            self._assistant = None

    def _put(self, message: Message) -> None:
        if self._ids:
            self._waiting.append(message)
            return
        self._assistant, self._reasoning = None, ""
        self._messages.append(message)

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._put(message)

    def _speaking(self) -> Message:
        self._assistant = message = {"role": "assistant", "content": None}
        self._messages.append(message)
        return message

    def _with_thoughts(self, message: Message) -> Message:
        thoughts, self._reasoning = self._reasoning, ""
        if thoughts:
            before = message.get("reasoning_content")
            message["reasoning_content"] = f"{before}\n{thoughts}" if before else thoughts
        return message

    def _fresh(self, given: str) -> str:
        """An id no other call here has."""
        fresh = given
        if not given or len(given) > _ID_LENGTH or given in self._used:
            mark = hashlib.sha256(f"{given}\n{len(self._used)}".encode()).hexdigest()[:24]
            fresh = f"call_{mark}"
        self._used.add(fresh)
        return fresh


def _as_parts(said: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(said, str):
        return [{"type": "text", "text": said}] if said else []
    return said


_HANDLERS: dict[str, Callable[[Transcript, dict[str, Any], str], None]] = {
    "message": Transcript._message,
    "reasoning": Transcript._think,
    "function_call": Transcript._function_call,
    "custom_tool_call": Transcript._custom_call,
    "function_call_output": Transcript._output,
    "custom_tool_call_output": Transcript._output,
    "mcp_call": Transcript._mcp_call,
}
