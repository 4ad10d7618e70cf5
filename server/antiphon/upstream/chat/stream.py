"""Chat Completions chunks into Responses events. Pure.

The events are the least the assembler needs: it mints the ids and adds the parts, the dones and the output.

How an answer ends:

| the upstream | the response |
|---|---|
| gave a `finish_reason`, then `[DONE]`, the end of the body, a break or silence | ends by that reason |
| `stop`, `tool_calls`, `function_call`, or a reason nobody knows | completed |
| `length`; `content_filter` | incomplete: `max_output_tokens`; `content_filter` |
| `error`, `abort`, `insufficient_system_resource` | failed, `upstream_error` |
| sent an error instead of a chunk, at any time before the end | failed, with the upstream's code |
| sent `[DONE]`, or ended the body, without a `finish_reason` | no terminal event: the caller calls it failed |
| broke off or fell silent without a `finish_reason` | UpstreamError |
| answered whole, without streaming | as above; without a `finish_reason` it is completed |

In every case what was received before stays.
"""

from __future__ import annotations

from typing import Any

from antiphon.upstream.chat.calls import CallGroups, ToolCall
from antiphon.upstream.chat.custom_input import CustomInput
from antiphon.upstream.chat.tools import ChatTools
from antiphon.upstream.chat.vocabulary import (
    annotations_in,
    encode,
    read,
    reasoning_in,
    terminal,
    texts_in,
    usage_in,
)
from antiphon.upstream.failures import error_of

_TEXT = b'{"type":"response.output_text.delta","output_index":%d,"content_index":0,"delta":'
_REFUSAL = b'{"type":"response.refusal.delta","output_index":%d,"content_index":1,"delta":'
_REASONING = b'{"type":"response.reasoning_text.delta","output_index":%d,"content_index":0,"delta":'
_ARGUMENTS = b'{"type":"response.function_call_arguments.delta","output_index":%d,"delta":'
_INPUT = b'{"type":"response.custom_tool_call_input.delta","output_index":%d,"delta":'


class _OpenCall:
    """A call that was announced. head: what stands before each of its deltas. input: of a custom tool."""

    __slots__ = ("head", "input", "number")

    def __init__(self, number: int, custom: bool) -> None:
        self.number = number
        self.input = CustomInput() if custom else None
        self.head = (_INPUT if custom else _ARGUMENTS) % number


class ChatStream:
    """One answer. `add` and `end` append events to `out`.

    settled: there was a `finish_reason`. ended: the terminal event is out, nothing that follows counts.
    """

    def __init__(self, tools: ChatTools) -> None:
        self.ended = False
        self.settled = False
        self._tools = tools
        self._items = 0
        self._open: tuple[str, int] | None = None
        """The message or reasoning item that is being written: its type and its output index."""
        self._head: bytes | None = None
        """What stands before a text delta while a message is open."""
        self._groups = CallGroups()
        self._calls: dict[ToolCall, _OpenCall] = {}
        self._logprobs: list[Any] = []
        self._annotations: list[dict[str, Any]] = []
        self._reason = ""
        self._usage: dict[str, Any] | None = None

    def add(self, name: bytes, data: bytes, out: list[bytes]) -> None:
        """Take one event of the upstream. name: its `event:` field. What is no JSON object says nothing."""
        if self.ended:
            return
        chunk = read(data)
        if name == b"error":
            self._fail(chunk if isinstance(chunk, dict) else {"message": data.decode()}, out)
            return
        if not isinstance(chunk, dict):
            return
        choices = chunk.get("choices")
        if choices and isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index") in (0, None):
                    self._choice(choice, out)
        if (not choices or "error" in chunk) and error_of(chunk) is not None:
            self._fail(chunk, out)
        elif "usage" in chunk or "x_groq" in chunk:
            usage = usage_in(chunk)
            self._usage = usage or self._usage
            if usage is not None and self.settled and not choices:
                self.end(out)  # the usage is the last that is awaited

    def whole(self, answer: dict[str, Any], out: list[bytes]) -> bool:
        """Take an answer that was not streamed; False if it has no message."""
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
                self._choice({"finish_reason": "stop", **choice, "delta": choice["message"]}, out)
                self._reason, self._usage = self._reason or "stop", usage_in(answer) or self._usage
                self.end(out)
                return True
        return False

    def end(self, out: list[bytes]) -> None:
        """Nothing follows. Gives the terminal event if there was a `finish_reason`."""
        if self.ended or not self._reason:
            return
        event = terminal(self._reason, self._usage)
        self._close(out)
        for call in self._groups.all:
            self._close_call(call, event["type"] == "response.completed", out)
        out.append(encode(event))
        self.ended = True

    def _fail(self, chunk: dict[str, Any], out: list[bytes]) -> None:
        out.append(encode({"type": "error", "error": error_of(chunk) or chunk}))
        self.ended = True

    def _choice(self, choice: dict[str, Any], out: list[bytes]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict) and not self._items:
            delta = choice.get("message")  # a whole answer as the only chunk
        if isinstance(delta, dict):
            logprobs = choice.get("logprobs")
            if len(delta) == 1 and self._head is not None and not logprobs and (text := delta.get("content")):
                self._text(text, out)
            elif len(delta) == 1 and (fragments := delta.get("tool_calls")):
                self._call(fragments, out)
            else:
                self._delta(delta, logprobs, out)
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            self._reason, self.settled = reason, True
            self._usage = usage_in(choice) or self._usage

    def _delta(self, delta: dict[str, Any], logprobs: Any, out: list[bytes]) -> None:
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self._logprobs += logprobs["content"]
        if thoughts := reasoning_in(delta):
            self._think(thoughts, out)
        if content := delta.get("content"):
            self._text(content, out)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            number = self._write("message", out)
            out.append(_REFUSAL % number + encode(refusal) + b"}")
        if "annotations" in delta:
            self._annotations += annotations_in(delta["annotations"])
        if delta.get("tool_calls"):
            self._call(delta["tool_calls"], out)
        elif delta.get("function_call"):
            self._call([{"index": 0, "function": delta["function_call"]}], out)

    def _text(self, content: Any, out: list[bytes]) -> None:
        if not isinstance(content, str):
            for kind, said in texts_in(content) if isinstance(content, list) else ():
                if said and kind == "thinking":
                    self._think(said, out)
                elif said:
                    self._text(said, out)
            return
        if self._head is None:
            self._head = _TEXT % self._write("message", out)
        event = self._head + encode(content)
        if self._logprobs:
            event += b',"logprobs":' + encode(self._logprobs)
            self._logprobs = []
        out.append(event + b"}")

    def _think(self, thoughts: str, out: list[bytes]) -> None:
        number = self._write("reasoning", out)
        out.append(_REASONING % number + encode(thoughts) + b"}")

    def _write(self, kind: str, out: list[bytes]) -> int:
        """The output index of the open item of that kind; another that is open is finished."""
        if self._open is not None and self._open[0] == kind:
            return self._open[1]
        self._close(out)
        self._open = kind, self._items
        self._items += 1
        return self._open[1]

    def _close(self, out: list[bytes]) -> None:
        if self._open is None:
            return
        kind, number = self._open
        for annotation in self._annotations if kind == "message" else ():
            where = {"output_index": number, "content_index": 0}
            added = {"type": "response.output_text.annotation.added", **where, "annotation": annotation}
            out.append(encode(added))
            self._annotations = []
        out.append(_item_done(number, {"type": kind, "status": "completed"}))
        self._open = self._head = None

    def _call(self, fragments: Any, out: list[bytes]) -> None:
        for call, arguments in self._groups.take(fragments):
            if arguments:
                known = self._calls.get(call) or self._announced(call, out)
                text = known.input.add(arguments) if known.input is not None else arguments
                if text:
                    out.append(known.head + encode(text) + b"}")

    def _announced(self, call: ToolCall, out: list[bytes]) -> _OpenCall:
        """The call as clients know it. It is announced with its arguments: until then its name may grow."""
        known = self._calls.get(call)
        if known is not None:
            return known
        self._close(out)
        for earlier in self._groups.all:
            if earlier is call:
                break
            self._announced(earlier, out)
        known = self._calls[call] = _OpenCall(self._items, self._item(call)["type"] == "custom_tool_call")
        self._items += 1
        added = {"type": "response.output_item.added", "output_index": known.number, "item": self._item(call)}
        out.append(encode(added))
        return known

    def _item(self, call: ToolCall) -> dict[str, Any]:
        identity = self._tools.identity(call.name)
        item = {"type": identity.kind, "name": identity.name, "call_id": call.id, "namespace": identity.namespace}
        return {key: value for key, value in item.items() if value}

    def _close_call(self, call: ToolCall, completed: bool, out: list[bytes]) -> None:
        known = self._announced(call, out)
        rest = known.input.finish() if known.input is not None else "" if call.pieces else "{}"
        if not completed:
            return  # the terminal event closes it as incomplete
        if rest:
            out.append(known.head + encode(rest) + b"}")
        out.append(_item_done(known.number, {**self._item(call), "status": "completed"}))


def _item_done(number: int, item: dict[str, Any]) -> bytes:
    return encode({"type": "response.output_item.done", "output_index": number, "item": item})
