"""Extensions as somebody might write them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from antiphon.hooks import (
    Deny,
    Next,
    Reply,
    RunEnded,
    RunOutcome,
    RunRequest,
    RunStarted,
    SkillContext,
    SkillDispatch,
    SkillExecutor,
    Subscriptions,
)


async def passing(request: RunRequest, next: Next) -> RunOutcome:
    return await next(request)


async def denying(request: RunRequest, next: Next) -> RunOutcome:
    raise Deny


async def giving_nothing(request: RunRequest, next: Next) -> None: ...


class Answering:
    def __init__(self, text: str) -> None:
        self._text = text

    async def __call__(self, request: RunRequest, next: Next) -> Reply:
        return Reply(text=self._text)


def renaming(agent: str) -> Any:
    async def rename(request: RunRequest, next: Next) -> RunOutcome:
        return await next(replace(request, agent=agent))

    return rename


def synchronous(request: RunRequest, next: Next) -> RunOutcome:
    raise AssertionError


class Synchronous:
    def __call__(self, request: RunRequest, next: Next) -> RunOutcome:
        raise AssertionError


async def alone() -> None: ...


class Facts:
    def __init__(self, fact: str = "Water is wet.") -> None:
        self._fact = fact

    async def get_context(self, *, agent: str, tenant: str) -> str:
        return f"{self._fact} ({tenant}/{agent})"


FACTS = Facts("Snow is cold.")


class Silent:
    """Has nothing that gives context."""


class SynchronousFacts:
    def get_context(self, *, agent: str, tenant: str) -> str:
        raise AssertionError


heard: list[Any] = []


def note(subscriptions: Subscriptions, mark: str = "") -> None:
    async def started(run: RunStarted) -> None:
        heard.append((mark, "started", run.run_id))

    async def ended(run: RunEnded) -> None:
        heard.append((mark, run.status, run.run_id))

    subscriptions.on("run.started", started)
    subscriptions.on("run.completed", ended)


def note_unknown(subscriptions: Subscriptions) -> None:
    async def never(run: Any) -> None: ...

    subscriptions.on("run.finished", never)


def note_synchronously(subscriptions: Subscriptions) -> None:
    subscriptions.on("run.completed", heard.append)  # type: ignore[arg-type]


def note_requests(subscriptions: Subscriptions) -> None:
    subscriptions.on("agent.run", passing)  # type: ignore[arg-type]


async def note_asynchronously(subscriptions: Subscriptions) -> None: ...


async def counting(dispatch: SkillDispatch, context: SkillContext) -> dict[str, Any]:
    return {"characters": len(dispatch.input["text"]), "for": context.tenant}


async def nothing_else(dispatch: SkillDispatch, context: SkillContext) -> str:
    return "found"


def know_more(subscriptions: Subscriptions) -> None:
    async def find(dispatch: SkillDispatch) -> SkillExecutor | None:
        return nothing_else if dispatch.skill_id == "elsewhere" else None

    subscriptions.on("skill.find", find)  # type: ignore[arg-type]


def leaving(**options: Any) -> Any:
    sys.exit(1)


NOT_CALLABLE = 5
