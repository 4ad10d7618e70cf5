"""Plays recorded answers to the real upstreams, cut anywhere, and assembles what comes out.

`recorded/` holds answers of the shapes real servers send, byte by byte, with their line ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import orjson

from antiphon.ports import Upstream
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.chat.upstream import ChatUpstream
from antiphon.upstream.responses import ResponsesUpstream
from tests.core.runs import check_log, drive
from tests.support.gap_checker import CheckedRun
from tests.upstream.calling import MIB, WAIT_S, model_call
from tests.upstream.through_httpx import ThroughHttpx

RECORDED = Path(__file__).parent / "recorded"
TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": {"type": "object"}},
    {"type": "function", "name": "get_time", "parameters": {"type": "object"}},
    {"type": "custom", "name": "apply_patch"},
    {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
]
BODY = {"model": "m", "input": "hello", "tools": TOOLS, "stream": True, "store": False}


def names(api: str) -> list[str]:
    """The recorded answers of an API."""
    return sorted(path.name for path in RECORDED.iterdir() if path.name.startswith(f"{api}_"))


_PARTS = {"reasoning_text": "text", "output_text": "text", "refusal": "refusal"}


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Player(httpx2.AsyncBaseTransport):
    """A network on which every answer is `pieces`, one a read."""

    def __init__(self, content_type: str = "text/event-stream") -> None:
        self.pieces: Sequence[bytes] = ()
        self._headers = {"content-type": content_type}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=self._headers, stream=_Pieces(self.pieces))


class Replay:
    """One recorded answer in front of the upstream that reads its API."""

    def __init__(self, name: str) -> None:
        self.data = (RECORDED / name).read_bytes()
        self._player = Player("application/json" if name.endswith(".json") else "text/event-stream")
        kind = ChatUpstream if name.startswith("chat_") else ResponsesUpstream
        self._upstream: Upstream = kind(
            UpstreamSettings(name="local", url="http://127.0.0.1/v1"),
            TimeoutSettings(),
            MIB,
            ThroughHttpx(self._player),
        )

    async def log(self, *pieces: bytes) -> list[bytes]:
        """The canonical log of the answer, read in these pieces; by default in one."""
        self._player.pieces = pieces or (self.data,)
        async with asyncio.timeout(WAIT_S):
            events = [event async for batch in self._upstream.stream(model_call(BODY)) for event in batch]
        return drive(events)[1]

    async def run(self) -> CheckedRun:
        """What the answer amounts to, held to every promise about a log."""
        return check_log(await self.log())

    async def aclose(self) -> None:
        await self._upstream.aclose()


def summary(run: CheckedRun) -> dict[str, Any]:
    """What a run says, in few words: its end, texts, calls and usage; what there is none of is left out."""
    assert run.terminal is not None
    response = run.terminal
    output = response["output"]  # also what was left open
    parts = [part for item in output if item["type"] in ("message", "reasoning") for part in item["content"]]
    said = {kind: "".join(part[field] for part in parts if part["type"] == kind) for kind, field in _PARTS.items()}
    usage = response["usage"]
    details = response["incomplete_details"]
    meaning = {
        "status": response["status"],
        "why": (response["error"] or {}).get("code") or (details or {}).get("reason"),
        "reasoning": said["reasoning_text"],
        "text": said["output_text"],
        "refusal": said["refusal"],
        "calls": [_call(item) for item in output if item["type"] in ("function_call", "custom_tool_call")],
        "usage": usage and (usage["input_tokens"], usage["output_tokens"]),
    }
    return {key: value for key, value in meaning.items() if value}


def _call(call: dict[str, Any]) -> tuple[str, Any]:
    name = call["name"] if not call.get("namespace") else f"{call['namespace']}.{call['name']}"
    return name, call["input"] if call["type"] == "custom_tool_call" else orjson.loads(call["arguments"])
