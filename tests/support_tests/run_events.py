"""A well-formed run of many kinds of items, to be broken in one place by each test."""

from __future__ import annotations

import copy
from typing import Any

Event = dict[str, Any]


class Script:
    """Builds the events of a run in order, numbering them."""

    def __init__(self, response_id: str = "resp_1", stream_id: str | None = None) -> None:
        self.events: list[Event] = []
        self.output: list[dict[str, Any]] = []
        self._response_id = response_id
        self._lane = {} if stream_id is None else {"stream_id": stream_id}

    def add(self, kind: str, **fields: Any) -> None:
        self.events.append({"type": kind, "sequence_number": len(self.events), **fields, **self._lane})

    def lifecycle(self, kind: str, status: str, **fields: Any) -> None:
        response = {
            "id": self._response_id,
            "status": status,
            "output": list(self.output),
            "error": None,
            **fields,
        }
        self.add(f"response.{kind}", response=response)

    def item(self, item: dict[str, Any], start: dict[str, Any], body: list[tuple[str, dict[str, Any]]]) -> None:
        index = len(self.output)
        self.add("response.output_item.added", output_index=index, item={**item, "status": "in_progress", **start})
        for kind, fields in body:
            self.add(f"response.{kind}", output_index=index, item_id=item["id"], **fields)
        self.add("response.output_item.done", output_index=index, item=item)
        self.output.append(item)


def part_body(
    name: str, index: dict[str, int], part: dict[str, Any], field: str
) -> list[tuple[str, dict[str, Any]]]:
    """added, two deltas, done, part done."""
    text, part_name = part[field], "reasoning_summary_part" if "summary_index" in index else "content_part"
    return [
        (f"{part_name}.added", {**index, "part": {**part, field: ""}}),
        (f"{name}.delta", {**index, "delta": text[:2]}),
        (f"{name}.delta", {**index, "delta": text[2:]}),
        (f"{name}.done", {**index, field: text}),
        (f"{part_name}.done", {**index, "part": part}),
    ]


def whole_body(name: str, field: str, text: str) -> list[tuple[str, dict[str, Any]]]:
    """Two deltas and done, of an item that is one text."""
    return [
        (f"{name}.delta", {"delta": text[:2]}),
        (f"{name}.delta", {"delta": text[2:]}),
        (f"{name}.done", {field: text}),
    ]


def good_run(stream_id: str | None = None) -> list[Event]:
    """Reasoning with summary and text, a message with text and refusal, a function call, a custom call."""
    script = Script(stream_id=stream_id)
    script.lifecycle("created", "in_progress")
    script.lifecycle("in_progress", "in_progress")
    summary = {"type": "summary_text", "text": "thinks"}
    thought = {"type": "reasoning_text", "text": "deeply"}
    script.item(
        {"id": "rs_1", "type": "reasoning", "summary": [summary], "content": [thought]},
        {"summary": [], "content": []},
        part_body("reasoning_summary_text", {"summary_index": 0}, summary, "text")
        + part_body("reasoning_text", {"content_index": 0}, thought, "text"),
    )
    text = {"type": "output_text", "text": "hello", "annotations": []}
    refusal = {"type": "refusal", "refusal": "never"}
    script.item(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text, refusal],
        },
        {"content": []},
        part_body("output_text", {"content_index": 0}, text, "text")
        + part_body("refusal", {"content_index": 1}, refusal, "refusal"),
    )
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
    script.item(
        {**call, "status": "completed"},
        {"arguments": ""},
        whole_body("function_call_arguments", "arguments", call["arguments"]),
    )
    script.item(
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "g", "input": "patch"},
        {"input": ""},
        whole_body("custom_tool_call_input", "input", "patch"),
    )
    script.lifecycle("completed", "completed")
    return [copy.deepcopy(event) for event in script.events]


def failed_run() -> list[Event]:
    """Fails in the middle of a message: its item and part stay open."""
    events = good_run()[:17]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    response = {
        "id": "resp_1",
        "status": "failed",
        "output": done,
        "error": {"code": "server_error", "message": "x"},
    }
    return [*events, {"type": "response.failed", "sequence_number": 17, "response": response}]
