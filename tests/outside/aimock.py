"""aimock as the upstream: its answers come through both upstream APIs, its chaos ends each run once and clearly.

Its chaos flags are chances. At 1 what must come is known; between 0 and 1 what must hold whatever comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.outside.outcome import Outcome
from tests.outside.programs import NODE_FOLDER, node_program, node_version, running
from tests.support.server import running_server
from tests.support.ws_client import Event, WsClient, ws_client

PACKAGE = "@copilotkit/aimock"
FIXTURES = Path(__file__).parent / "aimock_fixtures.json"
MODEL = "aimock-model"
APIS = ("responses", "chat")
GREETING = "Hello! How can I help you today?"
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
STORM = (
    "--chaos-drop",
    "0.2",
    "--chaos-malformed",
    "0.2",
    "--chaos-ratelimit",
    "0.2",
    "--chaos-disconnect",
    "0.2",
)
STORM_LANES = 4
STORM_TURNS = 8
CHAOS = {
    "drop": "upstream_unavailable",
    "malformed": "upstream_error",
    "ratelimit": "chaos_ratelimit",
    "disconnect": "upstream_unavailable",
}
"""Flag -> the code with which a run has to fail when every call meets it. That of a rate limit is aimock's own."""

Case = Callable[[str], Awaitable[None]]


async def aimock() -> Outcome:
    """Every case through every upstream API."""
    node_program(PACKAGE, "dist/cli.js")
    passed, failures = 0, []
    for api in APIS:
        for name, case in CASES.items():
            try:
                await case(api)
                passed += 1
            except AssertionError as error:
                failures.append(f"{name}, upstream API `{api}`: {error}")
    return Outcome(
        "aimock (as upstream, with chaos)",
        node_version(PACKAGE, NODE_FOLDER),
        "runs over WebSocket, through the upstream APIs `responses` and `chat`",
        passed=passed,
        failures=failures,
    )


@contextlib.asynccontextmanager
async def client_of(api: str, *chaos: str) -> AsyncIterator[WsClient]:
    """A client of a server in front of an aimock with these flags."""
    words = [*node_program(PACKAGE, "dist/cli.js"), "--port", "0", "--fixtures", str(FIXTURES), *chaos]
    async with running(*words, says=r"listening on (http://\S+)") as said:
        upstream = {"name": "aimock", "url": f"{said[1]}/v1", "models": [MODEL], "api": api}
        # Chaos would open the breaker, and then nothing would be asked any more.
        async with (
            running_server(upstream=[upstream], breaker={"failures": 10_000}) as server,
            ws_client(server.ws_url) as client,
        ):
            yield client


async def _text(api: str) -> None:
    async with client_of(api) as client:
        events = await client.run(MODEL, "hello")
        assert _text_of(events[-1]) == GREETING, events[-1].raw


async def _call(api: str) -> None:
    async with client_of(api) as client:
        events = await client.run(MODEL, "What is the weather?", tools=[WEATHER])
        items = [item for item in events[-1]["response"]["output"] if item["type"] == "function_call"]
        assert [(item["name"], json.loads(item["arguments"])) for item in items] == [
            ("get_weather", {"location": "San Francisco"})
        ], events[-1].raw


async def _latency(api: str) -> None:
    async with client_of(api, "--chaos-latency", "500") as client:
        events = await client.run(MODEL, "hello")
        assert _text_of(events[-1]) == GREETING, events[-1].raw


def _always(flag: str, code: str) -> Case:
    async def case(api: str) -> None:
        async with client_of(api, f"--chaos-{flag}", "1") as client:
            end = (await client.run(MODEL, "hello"))[-1]
            assert end["type"] == "response.failed", end.raw
            assert end["response"]["error"]["code"] == code, end.raw
            after = await client.run("antiphon/echo", "still here")
            assert after[-1]["type"] == "response.completed", after[-1].raw

    return case


async def _storm(api: str) -> None:
    async with client_of(api, *STORM) as client:
        await asyncio.gather(*(_lane(client, f"lane-{number}") for number in range(STORM_LANES)))


async def _lane(client: WsClient, lane: str) -> None:
    """Turns whose numbers have no gap, and that complete whole or fail with a code of chaos."""
    for _ in range(STORM_TURNS):
        events = await client.run(MODEL, "hello", stream_id=lane)
        assert [event["sequence_number"] for event in events] == list(range(len(events))), events[-1].raw
        end = events[-1]
        if end["type"] == "response.completed":
            assert _text_of(end) == GREETING, end.raw
        else:
            assert end["response"]["error"]["code"] in CHAOS.values(), end.raw


def _text_of(end: Event) -> str:
    parts = [part for item in end["response"]["output"] for part in item.get("content", ())]
    return "".join(part["text"] for part in parts)


CASES: dict[str, Case] = {
    "a text comes through": _text,
    "a call comes through": _call,
    "a late answer comes through": _latency,
    **{f"every call meets `{flag}`": _always(flag, code) for flag, code in CHAOS.items()},
    "a storm of all of them": _storm,
}
