"""The model that suites talk to: it does what a request asks for, so that every path of the server is taken."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from antiphon.upstream.events import Answer
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, whole

MODEL = "gpt-5-scripted"
"""Suites ask no other names for reasoning: it has to look like a model that does so."""


async def answer(request: StubRequest, conn: StubConn) -> None:
    """Reason if reasoning is asked for, call the first function there is, else say a few words."""
    if request.path.endswith("/input_tokens"):
        conn.answer(200, {"object": "response.input_tokens", "input_tokens": 3})
        return
    asked: dict[str, Any] = json.loads(request.raw)
    built = Answer(MODEL, time.time())
    events = built.begin()
    if asked.get("reasoning"):
        events += built.reasoning("It is asked for a reason.")
    function = _function_to_call(asked)
    if function is not None:
        events += built.call(function, '{"location": "San Francisco"}')
    else:
        for word in ("This ", "is ", "an ", "answer."):
            events += built.text(word)
    events += built.end({"input_tokens": 3, "output_tokens": 4})
    if not asked.get("stream"):
        conn.answer(200, whole(events))
        return
    conn.head()
    for event in events:
        conn.sse(event)
    conn.end()


def _function_to_call(asked: dict[str, Any]) -> str | None:
    """The first function, unless its output is there already or a text is wanted."""
    items = asked["input"] if isinstance(asked.get("input"), list) else []
    answered = any(item.get("type") == "function_call_output" for item in items if isinstance(item, dict))
    if answered or asked.get("tool_choice") == "none":
        return None
    return next((tool["name"] for tool in asked.get("tools") or () if tool.get("type") == "function"), None)


@contextlib.asynccontextmanager
async def server(**settings: Any) -> AsyncIterator[RunningServer]:
    """A server in front of that model."""
    async with StubUpstream(answer, models=(MODEL,)) as stub:
        upstream = {"name": "outside", "url": stub.url, "models": [MODEL]}
        async with running_server(upstream=[upstream], **settings) as running:
            yield running
