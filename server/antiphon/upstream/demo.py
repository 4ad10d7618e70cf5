"""`antiphon/demo`: a scripted agent that talks, calls a tool of the client, and uses what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import orjson

from antiphon.ports import Clock, ModelCall
from antiphon.upstream.events import Answer
from antiphon.upstream.pace import Pace, Sleep
from antiphon.upstream.prompt import Prompt, words_of
from antiphon.upstream.schema_example import example

_CHAT = (
    "Hello! I am the demo model that is built into Antiphon. {heard}"
    "Antiphon is a server for agent runs that speaks the OpenAI Responses wire over WebSocket and HTTP. "
    "A run belongs to the server and not to the connection: close this tab or unplug the network, come back, "
    "and the run goes on from the last event you saw. Several clients can watch the same run, and each of them "
    "sees the same numbered events. "
    "Give me a function tool and I will call it, and answer with what you send back. "
    "For a model that thinks, configure an upstream."
)
_NO_CALL = "I was told not to call a tool, so I only say that `{tool}` is there. "
_CALL = "You said: {heard}. Let me ask your tool `{tool}` about it. "
_RESULT = "Thank you, the tool has answered. It says: {result}\nThat is all a demo needs to know."


class DemoUpstream:
    """A model without network. words_per_s: pace of its text; 0 means no delay."""

    name = "antiphon/demo"

    def __init__(self, clock: Clock, words_per_s: float = 30, sleep: Sleep = asyncio.sleep) -> None:
        self._pace = Pace(clock, sleep)
        self._words_per_s = words_per_s

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. Raises UpstreamError for a body that is no JSON object."""
        prompt = Prompt.read(call.body)
        answer = Answer(call.model, self._pace.clock.now())
        text, tool = _plan(prompt)
        yield answer.begin()
        words = words_of(text)
        async for batch in self._pace.at_rate(_texts(answer, words), self._words_per_s):
            yield batch
        if tool is not None:
            yield _call(answer, tool, prompt.user_text)
        yield answer.end(prompt.usage(len(words)))

    async def models(self) -> Sequence[str]:
        """Its one name."""
        return [self.name]

    async def aclose(self) -> None:
        """Nothing is held."""


def _plan(prompt: Prompt) -> tuple[str, dict[str, Any] | None]:
    """What to say, and the tool to call after it."""
    if prompt.outputs:
        return _RESULT.format(result="; ".join(prompt.outputs)), None
    heard = " ".join(prompt.user_text.split())[:200]
    tool = _chosen_tool(prompt)
    if tool is None:
        return _CHAT.format(heard=f"I heard: {heard}. " if heard else ""), None
    if prompt.tool_choice == "none":
        return _NO_CALL.format(tool=tool["name"]) + _CHAT.format(heard=""), None
    return _CALL.format(heard=heard or "nothing", tool=tool["name"]), tool


def _chosen_tool(prompt: Prompt) -> dict[str, Any] | None:
    """The tool the request forces, else its first function, else its first custom tool."""
    usable = [
        t for t in prompt.tools if t.get("type") in ("function", "custom") and isinstance(t.get("name"), str)
    ]
    if isinstance(prompt.tool_choice, dict):
        forced = [tool for tool in usable if tool["name"] == prompt.tool_choice.get("name")]
        usable = forced or usable
    return min(usable, key=lambda tool: tool["type"] != "function", default=None)


def _texts(answer: Answer, words: list[str]) -> Iterator[list[bytes]]:
    for word in words:
        yield answer.text(word)


def _call(answer: Answer, tool: dict[str, Any], heard: str) -> list[bytes]:
    if tool["type"] == "custom":
        return answer.call(tool["name"], heard or "hello", custom=True)
    return answer.call(tool["name"], orjson.dumps(example(tool.get("parameters"), heard)).decode())
