"""`antiphon/demo`: a scripted agent that asks the server for the time, calls a tool of the client and talks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Any

import orjson

from antiphon.ports import Clock, ModelCall
from antiphon.upstream.events import Answer
from antiphon.upstream.pace import Pace, Sleep
from antiphon.upstream.prompt import Prompt, words_of
from antiphon.upstream.schema_example import example

_CHAT = (
    "Hello! I am the demo model that is built into Antiphon. {heard}{time}"
    "Antiphon is a server for agent runs that speaks the OpenAI Responses wire over WebSocket and HTTP. "
    "A run belongs to the server and not to the connection: close this tab or unplug the network, come back, "
    "and the run goes on from the last event you saw. Several clients can watch the same run, and each of them "
    "sees the same numbered events. "
    "Give me a function tool and I will call it, and answer with what you send back. "
    "For a model that thinks, configure an upstream."
)
_NO_CALL = "I was told not to call a tool, so I only say that `{tool}` is there. "
_CALL = "You said: {heard}. {time}Let me ask your tool `{tool}` about it. "
_RESULT = "Thank you, the tool has answered. It says: {result}\nThat is all a demo needs to know."
_LONG = """You asked for a long answer, so here is one. {time}It takes about ten seconds, and nothing in it is \
urgent. Reload the page, close the tab or switch off the network whenever you like: the text goes on without \
you.

When your question arrived, the server made a run of it and sent the run to a model. The run belongs to the \
server. Your connection only watches it, the way a reader follows a news ticker: whoever looks away misses \
nothing, because what was printed stays printed. Every event of the run has a number, the first one zero, and \
the numbers have no holes.

Now suppose that the connection drops in the middle of this sentence. The model does not notice, and the \
server keeps what it writes. Your page notices, waits a moment, and connects again. Then it names the run and \
the number of the last event it has seen, and the server sends everything after that number, first what was \
missed and then what is new. No word is lost, and no word comes twice.

A reload is the same thing in a harsher form. The page forgets all that it had in memory, but it has written \
down in your browser which run it was following and how far it had come. That is enough to go on. A second tab \
can do the same at the same time, and so can a program on another machine: all of them see the same events in \
the same order.

Stopping is the one thing that does not happen by itself. An answer ends when the model has finished, when a \
limit is reached, or when somebody presses Stop; a lost connection is none of these. If you have not tried it \
yet, there is still a moment left to reload. And if you did, you are reading the proof: this is the last \
sentence, and it is here."""

_TIME = "The server's clock says {time} on a {weekday}. "
_NO_TIME = "The server would not tell me the time. "
_CLOCK = "current_time"
_CLOCK_NAMES = (f"antiphon__{_CLOCK}", _CLOCK)
"""What the server calls its clock here: the longer name if a client has a tool of the shorter one."""

_ASKS_FOR_LENGTH = re.compile(r"(?<!\bhow )\blong\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_FEW_FIELDS = 6
_SAID_CHARACTERS = 4_000
"""Of what a tool gave. A demo that says 50 MB again keeps the server from everything else."""


class DemoUpstream:
    """A model without network. words_per_s: pace of its text; 0 means no delay."""

    name = "antiphon/demo"
    tools: tuple[str, ...] = (_CLOCK,)

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

    async def input_tokens(self, call: ModelCall) -> int:
        """Words, as its usage counts them. Raises UpstreamError."""
        return Prompt.read(call.body).usage(0)["input_tokens"]

    async def aclose(self) -> None:
        """Nothing is held."""


def _plan(prompt: Prompt) -> tuple[str, dict[str, Any] | None]:
    """What to say, and the tool to call after it."""
    clock = _clock(prompt)
    # First, because some clients send the whole history without the calls of the server.
    results = [text for name, text in prompt.outputs if name != clock]
    if results:
        return _RESULT.format(result="; ".join(map(_told, results))[:_SAID_CHARACTERS]), None
    times = [text for name, text in prompt.outputs_since_user if name == clock]
    if clock is not None and not times and prompt.tool_choice in ("auto", "required", None):
        return "", {"type": "function", "name": clock}
    time = _time(times[0]) if times else ""
    if _ASKS_FOR_LENGTH.search(prompt.user_text) and prompt.tool_choice in ("auto", "none", None):
        return _LONG.format(time=time), None
    heard = " ".join(prompt.user_text.split())[:200].rstrip(".?! ")
    tool = _chosen_tool(prompt, clock)
    if tool is None:
        return _CHAT.format(heard=f"I heard: {heard}. " if heard else "", time=time), None
    if prompt.tool_choice == "none":
        return _NO_CALL.format(tool=tool["name"]) + _CHAT.format(heard="", time=""), None
    return _CALL.format(heard=heard or "nothing", tool=tool["name"], time=time), tool


def _clock(prompt: Prompt) -> str | None:
    """The name of the server's clock, if it was offered."""
    names = {tool.get("name") for tool in prompt.tools if tool.get("type") == "function"}
    return next((name for name in _CLOCK_NAMES if name in names), None)


def _time(output: str) -> str:
    """What the clock said, as a sentence."""
    try:
        fields = orjson.loads(output)
        at, weekday = datetime.fromisoformat(fields["time"]), fields["weekday"]
    except (ValueError, TypeError, KeyError):
        return _NO_TIME
    return _TIME.format(time=f"{at:%H:%M} {at.tzname()}", weekday=weekday)


def _told(output: str) -> str:
    """A tool's output as it can stand in a sentence: an object of few plain fields in words, all else as it is."""
    try:
        fields = orjson.loads(output)
    except orjson.JSONDecodeError:
        return output
    if not isinstance(fields, dict) or not 0 < len(fields) <= _FEW_FIELDS:
        return output
    if any(isinstance(value, (dict, list)) for value in fields.values()):
        return output
    *others, last = [f"the {name.replace('_', ' ')} is {_plain(value)}" for name, value in fields.items()]
    return f"{', '.join(others)} and {last}." if others else f"{last}."


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _chosen_tool(prompt: Prompt, clock: str | None) -> dict[str, Any] | None:
    """The tool the request forces, else the first function, else the first custom tool.

    A name with words of the question goes first. The clock is left out unless it is forced.
    """
    usable = [
        t for t in prompt.tools if t.get("type") in ("function", "custom") and isinstance(t.get("name"), str)
    ]
    if isinstance(prompt.tool_choice, dict):
        forced = [tool for tool in usable if tool["name"] == prompt.tool_choice.get("name")]
        if forced:
            return forced[0]
    said = set(_WORD.findall(prompt.user_text.lower()))

    def rank(tool: dict[str, Any]) -> tuple[bool, int]:
        return tool["type"] != "function", -len(said.intersection(_WORD.findall(tool["name"].lower())))

    return min((tool for tool in usable if tool["name"] != clock), key=rank, default=None)


def _texts(answer: Answer, words: list[str]) -> Iterator[list[bytes]]:
    for word in words:
        yield answer.text(word)


def _call(answer: Answer, tool: dict[str, Any], heard: str) -> list[bytes]:
    if tool["type"] == "custom":
        return answer.call(tool["name"], heard or "hello", custom=True)
    return answer.call(tool["name"], orjson.dumps(example(tool.get("parameters"), heard)).decode())
