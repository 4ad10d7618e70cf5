"""Another model takes the place of one that fails, before any output, visibly, and for the rest of the run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tests.session.play import checked, connected, response_id, text_of
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubUpstream, answering, calls, events_of_text, in_turn, play, text
from tests.support.ws_client import Event, WsClient

TIME = [{"type": "mcp", "server_label": "antiphon", "allowed_tools": ["current_time"]}]


@contextlib.asynccontextmanager
async def two_models(
    *, models: Sequence[str] | None = None
) -> AsyncIterator[tuple[StubUpstream, StubUpstream, RunningServer, WsClient]]:
    """A server whose model `first` falls back to `second`. models: what the tenant may use."""
    async with StubUpstream(models=["first"]) as first, StubUpstream(models=["second"]) as second:
        settings: dict[str, Any] = {
            "upstream": [
                {"name": name, "url": stub.url, "models": [name]}
                for name, stub in (("first", first), ("second", second))
            ],
            "fallbacks": {"first": ["second"]},
            "tenant": [{"id": "default", "models": models}],
        }
        async with running_server(**settings) as server, connected(server.ws_url) as client:
            yield first, second, server, client


def degraded(server: RunningServer, events: Sequence[Event]) -> list[dict[str, Any]]:
    entries = server.app.lifecycle.since("default", 0) or []
    mine = [e for e in entries if e.row["response_id"] == response_id(events) and e.event == "run.degraded"]
    return [{**entry.data, "row": (entry.row["degraded"], entry.row["fallback_from"])} for entry in mine]


async def test_a_failing_model_is_replaced_before_output_and_everybody_can_see_it() -> None:
    async with two_models() as (first, second, server, client):
        first.handler, second.handler = answering(503, {"error": {"message": "down"}}), text(2)
        events = await client.run("first")
        assert (checked(events).terminal["status"], text_of(events)) == ("completed", "w0 w1 ")
        assert checked(events).terminal["model"] == "first"
        told = {"fallback_from": "first", "fallback_to": "second", "row": (True, "first")}
        assert degraded(server, events) == [told]


async def test_the_run_goes_on_with_the_model_that_answered() -> None:
    async with two_models() as (first, second, server, client):
        first.handler = in_turn(answering(503, {}), answering(503, {}), answering(503, {}), text(1))
        second.handler = in_turn(calls(("current_time", "{}")), text(2))
        events = await client.run("first", tools=TIME)
        assert (checked(events).terminal["status"], text_of(events)) == ("completed", "w0 w1 ")
        assert [request.body["model"] for request in second.requests] == ["second", "second"]
        assert len(degraded(server, events)) == 1
        assert len(first.requests) == 3


async def test_once_output_was_shown_no_other_model_goes_on() -> None:
    async with two_models() as (first, second, server, client):
        first.handler = in_turn(calls(("current_time", "{}")), answering(503, {"error": {"message": "down"}}))
        events = await client.run("first", tools=TIME)
        assert checked(events).terminal["error"]["code"] == "upstream_unavailable"
        assert second.requests == [] and degraded(server, events) == []


async def test_a_stream_that_breaks_after_a_delta_keeps_what_was_said_and_is_not_made_again() -> None:
    async with two_models() as (first, second, server, client):
        first.handler = play(events_of_text(["half"])[:5])
        events = await client.run("first")
        end = checked(events).terminal
        assert (end["status"], end["output"][0]["content"][0]["text"]) == ("failed", "half")
        assert (len(first.requests), second.requests) == (1, [])


async def test_a_tenant_that_may_not_use_a_fallback_gets_no_model_call_at_all() -> None:
    async with two_models(models=["first"]) as (first, second, server, client):
        await client.create("first")
        assert (await client.recv_error())["error"]["code"] == "model_not_allowed"
        assert first.requests == second.requests == []
