"""What the tests of held calls share: models that call, runs that wait, and answers to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.http.calling import key_of
from tests.session.play import response_id, until, write_script
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import Event, WsClient

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]

TENANTS = [{"id": "acme"}, {"id": "other"}]
KEYS = [
    key_of("anna", name="anna", tenant="acme"),
    key_of("bob", name="bob", tenant="acme"),
    key_of("viewer", name="viewer", tenant="acme", role="viewer"),
    key_of("foreign", name="foreign", tenant="other", role="operator"),
]


@dataclass
class Waiting:
    """A run that waits for its clients. events: what its creator got so far, pushes included."""

    id: str
    call_ids: list[str]
    events: list[Event] = field(default_factory=list)


def calling(data_dir: Path, *rounds: int, name: str = "calling", **first: Any) -> str:
    """A model that makes so many calls in each round, then says "done". first: a step before the first call."""
    turns: list[list[dict[str, Any]]] = [
        [{"call": {"name": "look", "arguments": {"n": n}}} for n in range(count)] for count in rounds
    ]
    if first:
        turns[0].insert(0, first)
    return write_script(data_dir, name, *turns, [{"text": "done"}])


@contextlib.asynccontextmanager
async def tenants(**settings: Any) -> AsyncIterator[RunningServer]:
    async with running_server(auth="required", key=KEYS, tenant=TENANTS, **settings) as server:
        yield server


async def hold(
    client: WsClient, model: str, *, calls: int = 1, antiphon: dict[str, Any] | None = None, **fields: Any
) -> Waiting:
    """Create a run that holds its calls and wait until that many of them are shown."""
    await client.create(model, tools=TOOLS, antiphon={"client_tools": "hold", **(antiphon or {})}, **fields)
    return await shown_calls(client, calls, fields.get("stream_id"))


async def shown_calls(client: WsClient, calls: int, stream_id: str | None = None) -> Waiting:
    """Read the lane until that many calls are complete."""
    events: list[Event] = []
    call_ids: list[str] = []
    while len(call_ids) < calls:
        event = await client.recv_on(stream_id)
        events.append(event)
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            call_ids.append(event["item"]["call_id"])
    return Waiting(response_id(events), call_ids, events)


async def next_call(client: WsClient, stream_id: str | None = None) -> str:
    """Read the lane until one more call is complete; its id."""
    frames = await client.recv_until(
        lambda e: e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call",
        stream_id=stream_id,
    )
    return str(frames[-1]["item"]["call_id"])


async def waits(server: RunningServer, run: Waiting) -> dict[str, Any]:
    """Wait until the model's round is over and the run waits; its state."""
    await until(lambda: state_of(server, run.id)["state"] == "waiting_for_tool", "waiting for the clients")
    return state_of(server, run.id)


def state_of(server: RunningServer, run_id: str) -> dict[str, Any]:
    return server.app.registry.get(run_id).row()


def output(call_id: str, text: str = "seen", **options: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "function_call_output", "call_id": call_id, "output": text}
    return {**item, "antiphon": options} if options else item


async def send_inject(client: WsClient, run_id: str, items: Sequence[Any]) -> None:
    await client.send({"type": "response.inject", "response_id": run_id, "input": list(items)})


async def injected(client: WsClient, stream_id: str | None = None) -> Event:
    """The next answer to an inject on a lane."""
    return (await client.recv_until(lambda e: e["type"].startswith("response.inject."), stream_id=stream_id))[-1]


async def inject(client: WsClient, run_id: str, *items: Any, stream_id: str | None = None) -> Event:
    """Inject and wait for the answer."""
    await send_inject(client, run_id, items)
    return await injected(client, stream_id)


async def taken(client: WsClient, run_id: str, *items: Any, stream_id: str | None = None) -> Event:
    """An inject that has to be taken."""
    answer = await inject(client, run_id, *items, stream_id=stream_id)
    assert answer["type"] == "response.inject.created", answer.raw
    return answer


async def refused(client: WsClient, run_id: str, *items: Any, stream_id: str | None = None) -> dict[str, Any]:
    """The error of an inject that has to be refused, with its input handed back."""
    answer = await inject(client, run_id, *items, stream_id=stream_id)
    assert answer["type"] == "response.inject.failed", answer.raw
    assert (answer["response_id"], answer["input"]) == (run_id, list(items))
    error: dict[str, Any] = answer["error"]
    return error


def outputs(events: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """(call id, output) of each output item that was completed, in the order of the log."""
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return [(item["call_id"], item["output"]) for item in done if item["type"] == "function_call_output"]
