"""Answers in Chat Completions for STUB, and what such answers are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.stub_upstream import Handler, StubConn, StubRequest

Chunk = dict[str, Any]


def chunk(delta: Any = None, finish_reason: str | None = None, **fields: Any) -> Chunk:
    """One chunk with one choice. fields: of the choice."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish_reason, **fields}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


def usage(prompt: int = 7, completion: int = 3, **details: Any) -> Chunk:
    """The chunk that has only the usage."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**chunk(), "choices": [], "usage": {**counts, **details}}


def fragment(
    arguments: Any = None, name: str | None = None, call_id: str | None = None, index: int | None = 0
) -> dict[str, Any]:
    """One entry of `tool_calls`; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    given = {"index": index, "id": call_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {key: value for key, value in given.items() if value is not None}


def calling(*fragments: dict[str, Any]) -> Chunk:
    return chunk({"tool_calls": list(fragments)})


def text_chunks(*texts: str) -> list[Chunk]:
    """A whole answer that says these texts."""
    deltas = [chunk({"content": text}) for text in texts]
    return [chunk({"role": "assistant", "content": ""}), *deltas, chunk({}, "stop"), usage()]


def call_chunks(*calls: tuple[str, str, str]) -> list[Chunk]:
    """A whole answer with calls: (id, name, arguments)."""
    fragments = []
    for index, (call_id, name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        fragments.append(calling(fragment("", name, call_id, index)))
        fragments += [calling(fragment(part, index=index)) for part in (arguments[:half], arguments[half:])]
    return [chunk({"role": "assistant", "content": None}), *fragments, chunk({}, "tool_calls"), usage()]


def play(chunks: Sequence[Chunk | bytes], *, done: bool = True) -> Handler:
    """Stream the chunks, each as an event, then the end marker unless told otherwise."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for each in chunks:
            conn.sse(each, named=False)
        if done:
            conn.chunk(b"data: [DONE]\n\n")
        conn.end()

    return handler
