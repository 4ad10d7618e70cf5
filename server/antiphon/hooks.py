"""What an extension in Python meets: what it is given, what it may answer (docs/hooks.md).

Middleware stands around every run, a context provider says something to the model, an observer hears what happens,
a skill does work of its own. Tools have their own page (docs/tools.md); their types are in `ports.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from antiphon.core.principal import Principal
from antiphon.errors import Deny, HookError

__all__ = [
    "AgentContext",
    "ContextRequest",
    "Deny",
    "HookError",
    "Middleware",
    "Next",
    "Principal",
    "Reply",
    "RunContext",
    "RunEnded",
    "RunEvent",
    "RunOutcome",
    "RunRequest",
    "RunStarted",
    "RunUsage",
    "SkillContext",
    "SkillDispatch",
    "SkillExecutor",
    "Subscriptions",
]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that somebody asks for: admitted, its input read, nothing of it visible yet.

    input: the new items, as the client sent them. agent, model: as asked for, None where nothing was. origin: what
    it came through. A middleware may pass on another input, agent and model (`dataclasses.replace`), nothing else.
    """

    run_id: str
    principal: Principal
    origin: str
    conversation: str | None
    previous_response_id: str | None
    agent: str | None
    model: str | None
    input: list[dict[str, Any]]

    def texts(self) -> list[str]:
        """Every text of the input: of messages and of outputs of tools."""
        found: list[str] = []

        def keep(text: str) -> str:
            found.append(text)
            return text

        self.with_texts(keep)
        return found

    def with_texts(self, change: Callable[[str], str]) -> RunRequest:
        """The same request with every text of its input changed."""
        return replace(self, input=[_with_texts(item, change) for item in self.input])


def _with_texts(item: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    changed = dict(item)
    for key in ("content", "output"):
        value = item.get(key)
        if isinstance(value, str):
            changed[key] = change(value)
        elif isinstance(value, list):
            changed[key] = [
                {**part, "text": change(part["text"])}
                if isinstance(part, dict) and isinstance(part.get("text"), str)
                else part
                for part in value
            ]
    return changed


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in place of the model's: a text or output items. Raises ValueError unless it is one of both."""

    text: str | None = None
    items: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.items is None):
            raise ValueError("a reply has a text or items")
        if self.text is not None and not isinstance(self.text, str):
            raise ValueError("the text of a reply is a string")
        if self.items is not None and not _are_items(self.items):
            raise ValueError("the items of a reply are objects with a type")


def _are_items(items: Any) -> bool:
    if not isinstance(items, list) or not items:
        return False
    return all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in items)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended; everybody has seen it already.

    status: `completed`, `incomplete`, `failed` or `cancelled`. code: why, where it did not complete. source: whose
    the agent was: `user`, `community` or `system`. usage: tokens as on the wire.
    """

    run_id: str
    status: str
    code: str | None
    agent: str
    source: str
    model: str
    upstream: str
    usage: Mapping[str, Any] | None


Next = Callable[[RunRequest], Awaitable[RunOutcome]]
"""Goes on with the run and returns when it has ended. May be called once. Raises what refuses the run after it."""

Middleware = Callable[[RunRequest, Next], Awaitable[RunOutcome | Reply | Deny]]
"""Gives what `next` gave it; or, without calling it, a `Reply` or a `Deny` (which may as well be raised)."""


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """For which run context is wanted. principal: its id. source: as in `RunOutcome`."""

    tenant: str
    principal: str
    agent: str
    conversation: str
    run_id: str
    source: str


class RunContext(Protocol):
    """A context provider that wants to know the run. None or an empty text: nothing to say."""

    async def get_context_for_run(
        self, *, tenant: str, principal: str, agent: str, conversation: str, run_id: str, source: str
    ) -> str | None: ...


class AgentContext(Protocol):
    """The short form; a provider that has both is asked for it when the long one gave nothing."""

    async def get_context(self, *, agent: str, tenant: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`run.started`: told, and waited for, before the first call of a model. at: Unix seconds."""

    run_id: str
    tenant: str
    principal: str
    agent: str
    source: str
    model: str
    conversation: str
    origin: str
    at: float


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened to a run (PROTOCOL 16). run: its state after it. at: Unix seconds."""

    event: str
    tenant: str
    run_id: str
    run: Mapping[str, Any]
    data: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class RunUsage(RunEvent):
    """`run.usage`: one call of a model was counted."""

    @property
    def input_tokens(self) -> int:
        return int(self.data["input"])

    @property
    def output_tokens(self) -> int:
        return int(self.data["output"])

    @property
    def cost(self) -> float | None:
        """None where the model has no price."""
        cost: float | None = self.data["cost"]
        return cost

    @property
    def estimated(self) -> bool:
        """The model's server did not say; these are our numbers."""
        return bool(self.data.get("estimated"))


@dataclass(frozen=True, slots=True)
class RunEnded(RunEvent):
    """`run.completed`, `run.incomplete`, `run.failed` or `run.cancelled`."""

    @property
    def status(self) -> str:
        return self.event.removeprefix("run.")

    @property
    def code(self) -> str | None:
        """Why it did not complete."""
        return self.data.get("code")

    @property
    def usage(self) -> Mapping[str, Any] | None:
        return self.data.get("usage")

    @property
    def cost(self) -> float | None:
        return self.data.get("cost")


class Subscriptions(Protocol):
    """How an observer says what it wants to hear."""

    def on(self, event: str, handler: Callable[[Any], Awaitable[None]]) -> None:
        """Call `handler` with each of these events: `RunStarted`, `RunUsage`, `RunEnded` or `RunEvent`.

        Those of one run come one after the other. Raises IllegalDispatch for an event that does not exist.
        """
        ...


@dataclass(frozen=True, slots=True)
class SkillDispatch:
    """Work for a skill. run_id: of the run that it is."""

    skill_id: str
    input: Any
    run_id: str


@dataclass(frozen=True, slots=True)
class SkillContext:
    """For whom a skill works.

    ask: starts a run of a create (`{"model": ..., "input": ...}`) for the same principal and gives its
    `RunResult`; it is admitted and charged as any other.
    """

    tenant: str
    principal: str
    ask: Callable[[Mapping[str, Any]], Awaitable[Any]]


SkillExecutor = Callable[[SkillDispatch, SkillContext], Awaitable[Any]]
"""Gives anything that is JSON; it becomes the text of the run."""
