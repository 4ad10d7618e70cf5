"""What the session tests share: scripts to play, judged clients, and logs to compare."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from tests.support.gap_checker import CheckedRun, check_run
from tests.support.schemas import validate_open_responses, validate_own, validate_own_schema
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import Event, WsClient, ws_client

JUDGED_FRAMES = 400
"""Of each connection at most so many frames are held against the schemas: the kinds repeat."""

Step = dict[str, Any]


def write_script(data_dir: Path, name: str, *turns: list[Step]) -> str:
    """Write `<data_dir>/scripts/<name>.toml`; gives the model's name."""
    folder = data_dir / "scripts"
    folder.mkdir(exist_ok=True)
    lines = []
    for steps in turns:
        lines.append("[[turns]]")
        lines.append(f"steps = {_toml(steps)}")
    (folder / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")
    return f"antiphon/script:{name}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def words(count: int, rate: float = 0, text: str = "w{n} ") -> Step:
    """A step of a script that says `count` words, `rate` of them a second."""
    return {"text": text, "repeat": count, "rate": rate, "chunk": "all"}


def stub_settings(stub: StubUpstream, **fields: Any) -> dict[str, Any]:
    """Settings that make STUB the upstream of `stub-model`."""
    return {"upstream": ({"name": "stub", "url": stub.url, "models": ("stub-model",), **fields},)}


@contextlib.asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[WsClient]:
    """A client every frame of which is held against our models, our schema and Open Responses at the end."""
    async with ws_client(url, **options) as client:
        yield client
    for event in client.received[:JUDGED_FRAMES]:
        judge(event)


def judge(event: Event) -> None:
    """Hold one frame against the three schemas."""
    validate_own(event)
    validate_own_schema(event)
    validate_open_responses(event)


def numbered(frames: Iterable[Event]) -> list[Event]:
    """The events of a log among what came on a lane."""
    return [f for f in frames if f["type"] != "keepalive" and not f["type"].startswith("antiphon:")]


def log_bytes(frames: Iterable[Event]) -> list[str]:
    """The events of a log as they were sent, with the lane taken out: equal for every reader."""
    return [_without_lane(event) for event in numbered(frames)]


def _without_lane(event: Event) -> str:
    lane = event.get("stream_id")
    if lane is None:
        return event.raw
    suffix = f',"stream_id":"{lane}"}}'
    assert event.raw.endswith(suffix), f"the lane is not at the end: {event.raw[-300:]}"
    return event.raw.removesuffix(suffix) + "}"


def response_id(events: Iterable[Event]) -> str:
    """The id of the run these events belong to."""
    first = next(event for event in events if "response" in event)
    return str(first["response"]["id"])


async def started(client: WsClient, stream_id: str | None = None) -> str:
    """Wait for `response.created`, the next frame of the lane but for pushes; gives the id."""
    event = await client.recv_on(stream_id)
    while event["type"] == "antiphon:run":
        event = await client.recv_on(stream_id)
    assert event["type"] == "response.created", event.raw
    return str(event["response"]["id"])


async def attach_all(client: WsClient, run_id: str, wait_s: float = 40.0, **fields: Any) -> list[Event]:
    """Attach and collect the attachment to its end; gives the numbered events."""
    attached = await client.attach(run_id, **fields)
    return numbered(await client.collect_attachment(attached["stream_id"], wait_s))


async def reference(url: str, run_id: str, wait_s: float = 40.0) -> list[Event]:
    """REF: the run from its first event to its last, as an undisturbed observer gets it."""
    async with connected(url) as observer:
        await observer.hello()
        events = await attach_all(observer, run_id, wait_s)
        check_run(events)
        return events


def text_of(events: Iterable[Event]) -> str:
    """What the deltas say."""
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


def checked(events: Iterable[Event]) -> CheckedRun:
    """The run, after the gap checker has seen it."""
    return check_run(list(events))


async def until(true: Callable[[], bool], what: str, wait_s: float = 40.0) -> None:
    """Wait for something inside the server that tells nobody; bounded."""
    deadline = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {wait_s} s"
        await asyncio.sleep(0.01)
