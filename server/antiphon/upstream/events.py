"""Builds the Responses events of one answer in canonical order; the built-in models speak through it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import orjson


class Answer:
    """One answer. Each method gives the events it adds, encoded, in order.

    model: echoed in the response. created_at: Unix seconds. Item ids are plain (`message_0`), call ids unique.
    """

    def __init__(self, model: str, created_at: float, response_id: str | None = None) -> None:
        self.id = response_id or f"resp_{uuid4().hex}"
        self._model = model
        self._created_at = int(created_at)
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._pieces: list[str] = []

    def begin(self) -> list[bytes]:
        """`response.created` and `response.in_progress`."""
        response = self._response("in_progress")
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def text(self, delta: str) -> list[bytes]:
        """More text of the message, which is opened by the first."""
        out = self._switch("message")
        self._pieces.append(delta)
        out.append(self._part_event("response.output_text.delta", "content_index", delta=delta, logprobs=[]))
        return out

    def reasoning(self, delta: str) -> list[bytes]:
        """More of the reasoning summary, whose item is opened by the first."""
        out = self._switch("reasoning")
        self._pieces.append(delta)
        out.append(self._part_event("response.reasoning_summary_text.delta", "summary_index", delta=delta))
        return out

    def call(self, name: str, arguments: str, call_id: str | None = None, *, custom: bool = False) -> list[bytes]:
        """A whole call for the client: of a function, or of a custom tool with free text as its input."""
        kind, field = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        stem = "response.custom_tool_call_input" if custom else "response.function_call_arguments"
        out = self.close()
        item = self._new_item(kind, call_id=call_id or f"call_{uuid4().hex}", name=name, **{field: ""})
        out.append(self._item_event("response.output_item.added", item))
        where = {"item_id": item["id"], "output_index": len(self._output)}
        for piece in slices(arguments, 16):
            out.append(self._event(f"{stem}.delta", **where, delta=piece))
        done = {field: arguments} if custom else {"name": name, field: arguments}
        out.append(self._event(f"{stem}.done", **where, **done))
        item[field] = arguments
        out.append(self._finish(item))
        return out

    def close(self) -> list[bytes]:
        """Finish the open item, if there is one."""
        item, self._open = self._open, None
        if item is None:
            return []
        text, self._pieces = "".join(self._pieces), []
        if item["type"] == "message":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            item["content"] = [part]
            names, index = ("response.output_text.done", "response.content_part.done"), "content_index"
        else:
            part = {"type": "summary_text", "text": text}
            item["summary"] = [part]
            names = "response.reasoning_summary_text.done", "response.reasoning_summary_part.done"
            index = "summary_index"
        extra: dict[str, Any] = {"logprobs": []} if item["type"] == "message" else {}
        return [
            self._part_event(names[0], index, item, text=text, **extra),
            self._part_event(names[1], index, item, part=part),
            self._finish(item),
        ]

    def end(self, usage: dict[str, int], incomplete: str | None = None) -> list[bytes]:
        """Close what is open and say `response.completed`, or `response.incomplete` with the reason given."""
        out = self.close()
        if incomplete is None:
            response = self._response("completed", usage=_usage(**usage))
            out.append(self._event("response.completed", response=response))
        else:
            details = {"reason": incomplete}
            response = self._response("incomplete", usage=_usage(**usage), incomplete_details=details)
            out.append(self._event("response.incomplete", response=response))
        return out

    def fail(self, code: str, message: str) -> list[bytes]:
        """`response.failed`; an open item stays unfinished."""
        response = self._response("failed", error={"code": code, "message": message})
        return [self._event("response.failed", response=response)]

    def _switch(self, kind: str) -> list[bytes]:
        if self._open is not None and self._open["type"] == kind:
            return []
        out = self.close()
        if kind == "message":
            item = self._open = self._new_item(kind, role="assistant", content=[])
            part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            name, index = "response.content_part.added", "content_index"
        else:
            item = self._open = self._new_item(kind, summary=[])
            part = {"type": "summary_text", "text": ""}
            name, index = "response.reasoning_summary_part.added", "summary_index"
        out.append(self._item_event("response.output_item.added", item))
        out.append(self._part_event(name, index, part=part))
        return out

    def _new_item(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "id": f"{kind}_{len(self._output)}", "status": "in_progress", **fields}

    def _finish(self, item: dict[str, Any]) -> bytes:
        item["status"] = "completed"
        event = self._item_event("response.output_item.done", item)
        self._output.append(item)
        return event

    def _item_event(self, kind: str, item: dict[str, Any]) -> bytes:
        return self._event(kind, output_index=len(self._output), item=item)

    def _part_event(self, kind: str, index: str, item: dict[str, Any] | None = None, **fields: Any) -> bytes:
        item = item or self._open
        assert item is not None
        return self._event(kind, item_id=item["id"], output_index=len(self._output), **{index: 0}, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = orjson.dumps({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return event

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": self._output,
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
            **fields,
        }


def slices(text: str, size: int) -> list[str]:
    """The text in pieces of `size` characters; one empty piece if there is no text."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def _usage(input_tokens: int, output_tokens: int, reasoning_tokens: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }
