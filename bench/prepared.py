"""The frames of one turn as our server would send them, for peers that only send.

    prepared.py FILE       writes the lines that `peers/sender.c` and `peers/echo.py` read

A line is a letter, a space and a JSON payload: H before the deltas, D a delta (there are ten, taken in turns), S a
delta that carries the wall clock of its write, T after the deltas. `@NUMBER@` stands for the sequence number,
`@TEXT@` for the whole text, nineteen `#` for the clock.
"""

import sys
from pathlib import Path

import orjson
from mock_replies import MODEL, STAMP_SLOT, USAGE, WORDS

NUMBER_SLOT = "@NUMBER@"
TEXT_SLOT = "@TEXT@"
RESPONSE_ID = "resp_" + "0123456789abcdef" * 2
ITEM_ID = "msg_" + "0123456789abcdef" * 2


def response_object(status: str, output: list[dict[str, object]]) -> dict[str, object]:
    """A response with the fields our server gives it: as large as its, which is larger than the mock's."""
    done = status == "completed"
    usage = {**USAGE, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1764500000,
        "status": status,
        "completed_at": 1764500000 if done else None,
        "error": None,
        "incomplete_details": None,
        "usage": usage if done else None,
        "output": output,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "safety_identifier": None,
        "service_tier": "auto",
        "temperature": 1.0,
        "tool_choice": "auto",
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
        "store": False,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "model": MODEL,
        "tools": [],
        "metadata": {},
        "background": False,
        "conversation": None,
        "reasoning": {"effort": None, "summary": None},
        "text": {"format": {"type": "text"}},
    }


def payload(kind: str, **fields: object) -> str:
    """One event with a slot for its number."""
    event = orjson.dumps({"type": kind, "sequence_number": NUMBER_SLOT, **fields}).decode()
    return event.replace(f'"{NUMBER_SLOT}"', NUMBER_SLOT)


def prepared_lines() -> list[str]:
    """All lines, in the order in which a turn sends them."""
    place: dict[str, object] = {"item_id": ITEM_ID, "output_index": 0, "content_index": 0}
    item = {"id": ITEM_ID, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    part = {"type": "output_text", "text": TEXT_SLOT, "annotations": [], "logprobs": []}
    finished: dict[str, object] = {**item, "status": "completed", "content": [part]}
    begun = response_object("in_progress", [])
    head = [
        payload("response.created", response=begun),
        payload("response.in_progress", response=begun),
        payload("response.output_item.added", output_index=0, item=item),
        payload("response.content_part.added", **place, part={**part, "text": ""}),
    ]
    deltas = [payload("response.output_text.delta", **place, delta=word, logprobs=[]) for word in WORDS]
    stamped = payload("response.output_text.delta", **place, delta=STAMP_SLOT, logprobs=[])
    tail = [
        payload("response.output_text.done", **place, text=TEXT_SLOT, logprobs=[]),
        payload("response.content_part.done", **place, part=part),
        payload("response.output_item.done", output_index=0, item=finished),
        payload("response.completed", response=response_object("completed", [finished])),
    ]
    lettered = (("H", head), ("D", deltas), ("S", [stamped]), ("T", tail))
    return [f"{letter} {line}" for letter, lines in lettered for line in lines]


def write_prepared(path: Path) -> Path:
    """Write the lines into a file."""
    path.write_text("\n".join(prepared_lines()) + "\n")
    return path


if __name__ == "__main__":
    write_prepared(Path(sys.argv[1]))
