"""What the tests of the loop share: a server with tools of its own in front of a scripted upstream."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.upstream.events import Answer
from tests.http.calling import http
from tests.session.play import connected, stub_settings
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import Handler, StubUpstream, in_turn, play
from tests.support.ws_client import Event, WsClient

MODEL = "stub-model"
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch"}
USAGE = {"input_tokens": 3, "output_tokens": 5}

_KEYED = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "after": {"type": "array", "items": {"type": "string"}}},
    "required": ["key"],
}
Step = tuple[str, ...]


def own(name: str, **more: Any) -> dict[str, Any]:
    """A `[[tool]]` table of one of `own_tools.py`, offered to every run."""
    table = {"name": name, "kind": "python", "entry": f"tests.contract.own_tools:{name}", "always": True}
    return {**table, "description": f"Does {name}.", "parameters": {"type": "object"}, **more}


def keyed(name: str, **more: Any) -> dict[str, Any]:
    return own(name, parameters=_KEYED, **more)


def says(*steps: Step, usage: dict[str, int] | None = None, incomplete: str | None = None) -> list[bytes]:
    """The events of one model call.

    steps: ("text" or "reasoning", words), ("call", name, arguments[, id]), ("custom", name, input).
    """
    answer = Answer(MODEL, 1_764_000_000.0)
    events = answer.begin()
    for kind, *rest in steps:
        if kind == "call":
            events += answer.call(*rest)
        elif kind == "custom":
            events += answer.call(*rest, custom=True)
        else:
            events += getattr(answer, kind)(*rest)
    return events + answer.end(usage or USAGE, incomplete)


def call(name: str, call_id: str = "", **arguments: Any) -> Step:
    """A step: the model calls a function."""
    return ("call", name, json.dumps(arguments), *([call_id] if call_id else []))


def without_usage(events: Sequence[bytes]) -> list[bytes]:
    """The same model call from an upstream that does not count."""
    return [orjson.dumps(_uncounted(orjson.loads(event))) for event in events]


def _uncounted(event: dict[str, Any]) -> dict[str, Any]:
    if "response" in event:
        event["response"].pop("usage", None)
    return event


@dataclass
class Stage:
    """stub: the upstream. client: a connection to the server, every frame of which is judged."""

    stub: StubUpstream
    server: RunningServer
    client: WsClient

    async def run(self, input: Any = "go", **fields: Any) -> list[Event]:
        """A whole run; its events, held to every promise about a log."""
        events = await self.client.run(MODEL, input=input, **fields)
        check_run(events)
        return events

    def sent(self, index: int) -> list[dict[str, Any]]:
        """The input of the model call number `index`."""
        items: list[dict[str, Any]] = self.stub.requests[index].body["input"]
        return items

    async def refusal(self, **fields: Any) -> dict[str, Any]:
        """A create over HTTP that has to be refused: its error, with the status."""
        async with http(self.server) as client:
            answer = await client.post("/v1/responses", json={"model": MODEL, "input": "go", **fields})
        assert answer.status_code >= 400, answer.text
        return {**answer.json()["error"], "status": answer.status_code}


@contextlib.asynccontextmanager
async def stage(
    *rounds: Sequence[bytes] | Handler,
    has: Sequence[Any] = (),
    upstream: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """rounds: what the upstream answers, one after the other; the last to all that follow.

    has: `[[tool]]` tables. upstream: more of its `[[upstream]]` table.
    """
    handlers = [one if callable(one) else play(one) for one in rounds]
    async with (
        StubUpstream(in_turn(*handlers)) as stub,
        running_server(**stub_settings(stub, **(upstream or {})), tool=tuple(has), **settings) as server,
        connected(server.ws_url) as client,
    ):
        yield Stage(stub, server, client)


def response(events: Sequence[Event]) -> dict[str, Any]:
    """The response object of the terminal event."""
    terminal: dict[str, Any] = events[-1]["response"]
    return terminal


def types(items: Sequence[dict[str, Any]]) -> list[str]:
    """The types of items, or of events without their `response.`."""
    return [str(item.get("type", "message")).removeprefix("response.") for item in items]


def pairs(items: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """(kind, call id) of calls and outputs in a model's input: each call once, its output once and behind it."""
    found = [
        ("output" if item["type"].endswith("_output") else "call", item["call_id"])
        for item in items
        if "call_id" in item
    ]
    calls = [call_id for kind, call_id in found if kind == "call"]
    assert sorted(calls) == sorted(call_id for kind, call_id in found if kind == "output"), f"dangling: {found}"
    for call_id in calls:
        assert found.index(("call", call_id)) < found.index(("output", call_id)), f"out of order: {found}"
    return found
