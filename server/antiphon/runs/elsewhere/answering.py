"""The owner's side: what other nodes ask of the runs of this one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from antiphon.errors import AntiphonError
from antiphon.journal.contract import RunLost
from antiphon.ports import Bus
from antiphon.runs.elsewhere.messages import (
    COMPANY,
    SETTLED,
    Answer,
    pack_answer,
    pack_settled,
    pack_told,
    read_news,
    read_settled,
)
from antiphon.runs.elsewhere.remote_runs import PING, without_owner
from antiphon.runs.elsewhere.verbs import Here, Verb, read_verb
from antiphon.runs.elsewhere.visitors import Visitors
from antiphon.runs.run import Run
from antiphon.runs.steering.settled import SettledListener, SteerSettled

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

_CERTAIN_WITHIN_S = 1.0
"""How long a verb waits until it is certain that this node still owns the run."""


class Answering:
    """Answers messages about runs. on_settled: told what became of steers that were sent from this node."""

    def __init__(self, bus: Bus, here: Here, visitors: Visitors, on_settled: SettledListener) -> None:
        self._bus = bus
        self._here = here
        self._visitors = visitors
        self._on_settled = on_settled
        self.questions: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}
        """Kinds of messages that are about no run, and what answers them."""

    async def answer(self, node: str, kind: str, payload: bytes) -> bytes:
        """`Bus.on_message`. Raises AntiphonError for a message this version does not know."""
        if kind == PING:
            return b""
        if (question := self.questions.get(kind)) is not None:
            return await question(payload)
        if kind == COMPANY:
            return pack_told(self._visitors.told(node, read_news(payload)))
        if kind == SETTLED:
            self._on_settled(read_settled(payload))
            return b""
        try:
            verb = read_verb(kind, payload)
        except KeyError:
            log.warning("message_unknown", kind=kind, node=node)
            raise AntiphonError(f"This node does not know the message {kind[:80]!r}.") from None
        return pack_answer(await self._perform(verb, node))

    async def _perform(self, verb: Verb[Result], node: str) -> Answer:
        run = self._here.directory.own(verb.response_id)
        if run is None or is_moving(run):
            return Answer(moved=True)
        try:
            result = await perform_on(run, verb, self._here, self._teller(node))
        except RunLost:
            return Answer(moved=True)
        except AntiphonError as error:
            return Answer(error=error)
        return Answer(result=verb.pack_result(result))

    def _teller(self, node: str) -> SettledListener:
        def tell(settled: SteerSettled) -> None:
            self._bus.tell(node, SETTLED, pack_settled(settled))

        return tell


def is_moving(run: Run) -> bool:
    """Whether another node has the run, or will have it in a moment."""
    return run.lost or run.suspended


async def perform_on(run: Run, verb: Verb[Result], here: Here, on_settled: SettledListener) -> Result:
    """Carry a verb out on a run of this node, once it is certain that it still is one.

    Raises AntiphonError, also NodeGone if that cannot be known now, and RunLost.
    """
    if not run.log.ended:
        try:
            async with asyncio.timeout(_CERTAIN_WITHIN_S):
                await here.journal.may_act(run.log)
        except TimeoutError:
            raise without_owner() from None
    return await verb.perform(here, on_settled)
