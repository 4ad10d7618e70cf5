"""Short ways to translate in tests, without a network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from antiphon.upstream.chat.request import chat_body
from antiphon.upstream.chat.stream import ChatStream
from antiphon.upstream.chat.tools import ChatTools
from tests.core.runs import check_log, drive
from tests.support.chat_stub import Chunk
from tests.support.gap_checker import CheckedRun


def chat(input: Any = "hello", **fields: Any) -> dict[str, Any]:
    """The Chat Completions body of a Responses body."""
    body = {"model": "m", "input": input, "stream": True, "store": False, **fields}
    return chat_body(body, ChatTools(body), "max_tokens")


def messages(*items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The messages that items become."""
    found: list[dict[str, Any]] = chat(list(items), **fields)["messages"]
    return found


def raw_events(chunks: Iterable[Chunk | bytes], tools: Iterable[dict[str, Any]] = ()) -> list[bytes]:
    """What the translation makes of the chunks of an answer."""
    stream, out = ChatStream(ChatTools({"tools": list(tools)})), list[bytes]()
    for each in chunks:
        stream.add(b"", each if isinstance(each, bytes) else orjson.dumps(each), out)
    stream.end(out)
    return out


def run(chunks: Iterable[Chunk | bytes], tools: Iterable[dict[str, Any]] = ()) -> CheckedRun:
    """What clients get of it, held to every promise about a log."""
    return check_log(drive(raw_events(chunks, tools))[1])
