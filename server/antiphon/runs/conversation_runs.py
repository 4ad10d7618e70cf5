"""The runs of a conversation from the newest back to the first: those that go on, and those of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.runs.directory import RunDirectory, live_state, may_see
from antiphon.runs.named_conversations import NamedConversations, unknown
from antiphon.runs.run import Run
from antiphon.store.conversations import Place, StoredRun, runs_of_conversation
from antiphon.store.responses import ResponseReader


@dataclass(frozen=True, slots=True)
class Page:
    """states: RunStates, newest first. has_more: there are older ones."""

    states: list[dict[str, Any]]
    has_more: bool


class ConversationRuns:
    """What of a conversation its asker may see. Unknown and foreign conversations answer alike."""

    def __init__(self, reader: ResponseReader, directory: RunDirectory, named: NamedConversations) -> None:
        self._reader = reader
        self._directory = directory
        self._named = named

    async def page(self, conversation_id: str, principal: Principal, *, limit: int, before: str | None) -> Page:
        """At most `limit` runs that are older than the run `before`. Warm-ups are among them: they carry input.

        Raises RequestError `conversation_not_found`, or for a `before` that is not among them; StorageError.
        """
        place = await self._place(conversation_id, before, principal) if before is not None else None
        here = {run.id: run for run in self._here(conversation_id, principal)}
        stored = await runs_of_conversation(
            self._reader,
            conversation_id,
            tenant=None if principal.role == "admin" else principal.tenant,
            creator=None if principal.at_least("operator") else principal.id,
            before=place,
            limit=limit + 1,
        )
        found = [live_state(run) for run in here.values()]
        found += [await self._as_it_stands(row, principal) for row in stored if row.id not in here]
        found = [state for state in found if place is None or _place_of(state) < place]
        if not found and place is None and not await self._named.exists(conversation_id, principal):
            raise unknown(conversation_id)
        found.sort(key=_place_of, reverse=True)
        return Page(found[:limit], len(found) > limit)

    def _here(self, conversation_id: str, principal: Principal) -> list[Run]:
        return [
            run
            for run in self._directory.live_runs()
            if run.state.conversation_id == conversation_id and may_see(principal, run) and not run.lost
        ]

    async def _as_it_stands(self, row: StoredRun, principal: Principal) -> dict[str, Any]:
        run = None if row.ended else await self._directory.find(row.id, principal)
        state: dict[str, Any] = orjson.loads(row.run_state) if run is None else live_state(run)
        return state

    async def _place(self, conversation_id: str, before: str, principal: Principal) -> Place:
        run = self._directory.live(before, principal)
        try:
            state = (
                run.state.row()
                if run is not None
                else orjson.loads((await self._directory.stored(before, principal)).run_state)
            )
        except RequestError:
            state = {}
        if state.get("conversation_id") != conversation_id:
            raise RequestError(f"No run {before[:80]!r} in this conversation.", param="before")
        return _place_of(state)


def _place_of(state: dict[str, Any]) -> Place:
    return float(state["created_at"]), str(state["response_id"])
