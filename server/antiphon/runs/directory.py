"""Finding runs: live ones in memory, ended ones in the store, always as the asker may see them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.attach import After, AttachPlan, plan_attach
from antiphon.core.context import Known, response_of_derived
from antiphon.core.history import Turn
from antiphon.core.input_items import find_items
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.journal.contract import Journal, RunLost
from antiphon.journal.log import RunLog
from antiphon.runs.elsewhere.remote_run import RemoteRun
from antiphon.runs.elsewhere.remote_runs import RemoteRuns, without_owner
from antiphon.runs.run import Followed, Run
from antiphon.store.responses import ResponseReader, StoredResponse, turn_of_chain

_OWNER_LOOKS_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.4)
"""How long is waited between looks for a run that must be somewhere; then whoever asks is told."""

_TURNS_KEPT = 1024
_TURNS_KEPT_BYTES = 64 * 1024 * 1024
"""Finished turns kept in memory, so that the next create of a chain does not read it back."""


@dataclass(slots=True)
class Source:
    """Something to attach to. run: None if it ended and is read from the store. state: the RunState row.

    response: the object as it stands; of a live run only once a plan was made that shows it.
    """

    log: RunLog
    state: dict[str, Any]
    response: bytes
    run: Followed | None


class RunDirectory:
    """Runs by id. Unknown and foreign ids answer alike.

    max_items_bytes: how much stored items may have together that one input refers to.
    """

    def __init__(self, reader: ResponseReader, journal: Journal, remote: RemoteRuns, max_items_bytes: int) -> None:
        self._reader = reader
        self._journal = journal
        self._remote = remote
        self._max_items_bytes = max_items_bytes
        self._runs: dict[str, Run] = {}
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._turns_bytes = 0
        self.response_of: Callable[[Followed], Awaitable[tuple[bytes, int]]] = _as_it_stands
        """The object of a live run as it stands, asked of its owner, and the number of the log it stands at."""
        remote.own = self.own

    def add(self, run: Run) -> None:
        self._runs[run.id] = run

    def forget(self, response_id: str) -> None:
        """The run is no longer in memory (an unstored one is gone with it)."""
        self._runs.pop(response_id, None)

    def forget_turn(self, response_id: str) -> None:
        """The response was deleted; neither it nor what came after it can be continued from memory."""
        clean: set[str] = set()
        gone = {response_id}
        for turn in list(self._turns.values()):
            path = []
            for ancestor in turn.chain():
                if ancestor.response_id in clean or ancestor.response_id in gone:
                    break
                path.append(ancestor.response_id)
            follows = ancestor.response_id in gone
            (gone if follows else clean).update(path)
            if follows:
                self._drop_turn(turn.response_id)

    def forget_turns(self) -> None:
        """Something may have been deleted elsewhere; turns are read from the store again."""
        self._turns.clear()
        self._turns_bytes = 0

    def remember_turn(self, turn: Turn) -> None:
        """A stored response ended and can be continued."""
        self._drop_turn(turn.response_id)
        self._turns[turn.response_id] = turn
        self._turns_bytes += _size(turn)
        while len(self._turns) > _TURNS_KEPT or self._turns_bytes > _TURNS_KEPT_BYTES:
            self._drop_turn(next(iter(self._turns)))

    def _drop_turn(self, response_id: str) -> None:
        turn = self._turns.pop(response_id, None)
        if turn is not None:
            self._turns_bytes -= _size(turn)

    def live(self, response_id: str, principal: Principal) -> Run | None:
        """The run, if it is in memory and this principal may see it."""
        run = self._runs.get(response_id)
        if run is None or not may_see(principal, run):
            return None
        return run

    def own(self, response_id: str) -> Run | None:
        """A run of this node, whoever asks; None once another node has taken it."""
        run = self._runs.get(response_id)
        return run if run is not None and not run.lost else None

    async def find(self, response_id: str, principal: Principal) -> Followed | None:
        """A live run, of this node or of another, if this principal may see it. Raises StorageError."""
        return self.live(response_id, principal) or await self._remote.find(response_id, principal)

    def live_runs(self) -> list[Run]:
        return list(self._runs.values())

    async def live_of_conversation(self, conversation_id: str, principal: Principal) -> list[Followed]:
        """The runs of a conversation that have not ended and that this principal may see, without warm-ups.

        Raises StorageError.
        """
        runs = self._of_conversation(conversation_id, principal)
        found: list[Followed] = [r for r in runs if r.phase != "ended" and not r.request.is_warm_up]
        elsewhere = [i for i in await self._remote.of_conversation(conversation_id) if self.own(i) is None]
        found += [run for i in elsewhere if (run := await self._remote.find(i, principal)) is not None]
        return [run for run in found if not run.log.ended]

    async def newest_ended(self, conversation_id: str, principal: Principal) -> dict[str, Any] | None:
        """The state of the conversation's newest run that has ended. Raises StorageError."""
        ended = [run for run in self._of_conversation(conversation_id, principal) if run.phase == "ended"]
        states = [run.state.row() for run in ended]
        tenant = None if principal.role == "admin" else principal.tenant
        creator = None if principal.at_least("operator") else principal.id
        stored = await self._reader.newest_ended(conversation_id, tenant, creator)
        if stored is not None:
            states.append(orjson.loads(stored))
        return max(states, key=lambda state: float(state["created_at"]), default=None)

    def _of_conversation(self, conversation_id: str, principal: Principal) -> list[Run]:
        return [
            run
            for run in self._runs.values()
            if run.state.conversation_id == conversation_id and may_see(principal, run)
        ]

    async def stored(self, response_id: str, principal: Principal) -> StoredResponse:
        """The row. That of a run which has just begun here is written first: its clients know of it already.

        Raises RequestError `response_not_found`, StorageError.
        """
        row = await self._reader.find(response_id) if response_id.startswith("resp_") else None
        run = self.live(response_id, principal) if row is None else None
        if run is not None and run.stored:
            with contextlib.suppress(RunLost):  # then another node has written it
                await self._journal.flush(run.log)
            row = await self._reader.find(response_id)
        if row is None or not principal.may_see(row.tenant, row.creator, row.visibility):
            raise not_found(response_id)
        return row

    async def source(self, response_id: str, principal: Principal) -> Source:
        """Something to attach to. Raises RequestError `response_not_found`, StorageError, NodeGone."""
        for wait_s in _OWNER_LOOKS_S:
            run = await self.find(response_id, principal)
            if run is not None:
                return Source(run.log, live_state(run), b"", run)
            stored = await self.stored(response_id, principal)
            if stored.terminal_number is not None or self._remote.alone:
                return await self._ended(stored)
            # It goes on somewhere: its log is about to be there, or to be taken from a dead owner.
            await asyncio.sleep(wait_s)
        raise without_owner()

    async def _ended(self, stored: StoredResponse) -> Source:
        head = stored.terminal_number if stored.terminal_number is not None else await self._reader.head(stored.id)
        run_log = self._journal.open_ended(stored.id, stored.epochs, head)
        return Source(run_log, orjson.loads(stored.run_state), stored.response, None)

    async def plan(self, source: Source, after: After, epoch: str | None) -> AttachPlan:
        """What an attach at this cursor gets; fills `source.response` where it shows that.

        Raises CursorError, StorageError.
        """
        run_log = source.log
        if isinstance(after, int) and after > run_log.shown and isinstance(source.run, RemoteRun):
            await self._remote.is_at(source.run, after)
        first = await self._first(source) if after != "now" else 0
        plan = plan_attach(
            after, epoch, epochs=run_log.epochs, head=run_log.shown, first=first, ended=run_log.ended
        )
        if source.run is not None and plan.mode in ("snapshot", "ended"):
            source.response, number = await self.response_of(source.run)
            if plan.mode == "snapshot":
                # What follows has to follow what is in it: it may be further than this node was when it was asked.
                if isinstance(source.run, RemoteRun):
                    await self._remote.is_at(source.run, number)
                plan = AttachPlan("snapshot", number)
        return plan

    async def _first(self, source: Source) -> int:
        """The lowest number that can still be read; one past the head if none can."""
        run_log = source.log
        if isinstance(source.run, RemoteRun):
            return source.run.first
        if not run_log.stored:
            return run_log.first
        if source.run is not None:
            return run_log.epochs.entries[0][1]  # above 0 if the log was lost and begun again
        kept = await self._reader.first(run_log.run_id)
        if kept is not None:
            return kept
        moving = await self._journal.find(run_log.run_id)  # of several nodes: it is on its way to the store
        return moving.first if moving is not None else run_log.head + 1  # else the log is past its retention

    async def items(self, ids: Collection[str], principal: Principal, *, whole: bool) -> dict[str, Known]:
        """Stored items of the principal's tenant by id, of the newest response that it may see.

        whole: with the items themselves. Raises StorageError, RequestError `payload_too_large`.
        """
        homes: dict[str, tuple[str, str | None]] = {}
        for home in await self._reader.item_homes(sorted(ids), principal.tenant):
            if principal.may_see(principal.tenant, home.creator, home.visibility):
                homes.setdefault(home.item_id, (home.response_id, home.upstream_id))
        for item_id in ids:
            if item_id not in homes and (response_id := response_of_derived(item_id)) is not None:
                homes[item_id] = (response_id, None)
        if not whole:
            return {item_id: Known(*home) for item_id, home in homes.items()}
        return await self._whole_items(homes, principal)

    async def _whole_items(
        self, homes: Mapping[str, tuple[str, str | None]], principal: Principal
    ) -> dict[str, Known]:
        """One response at a time, and not more of them than one request may bring."""
        found: dict[str, Known] = {}
        room = self._max_items_bytes
        by_response: dict[str, list[tuple[str, str | None]]] = {}
        for item_id, (response_id, upstream_id) in homes.items():
            by_response.setdefault(response_id, []).append((item_id, upstream_id))
        for response_id, named in by_response.items():
            row = await self._own(response_id, principal)
            items = _items_of(row, {item_id for item_id, _ in named}) if row is not None else {}
            for item_id, upstream_id in named:
                item = items.get(item_id)
                room -= len(orjson.dumps(item))
                if room < 0:
                    raise RequestError(
                        f"The items this input refers to have more than {self._max_items_bytes} bytes together.",
                        code="payload_too_large",
                        param="input",
                    )
                found[item_id] = Known(response_id, upstream_id, item)
        return found

    async def _own(self, response_id: str, principal: Principal) -> StoredResponse | None:
        """A row of the principal's own tenant, whatever its role: history stays in its tenant."""
        row = await self._reader.find(response_id)
        if row is None or row.tenant != principal.tenant:
            return None
        return row if principal.may_see(row.tenant, row.creator, row.visibility) else None

    async def parent(self, response_id: str, principal: Principal) -> Turn | None:
        """A stored turn to continue from, None if it is unknown, foreign or a part of it is gone."""
        run = self.live(response_id, principal)
        if run is not None and run.turn is not None:
            return run.turn if run.stored else None
        if run is not None:
            return Turn(
                response_id=run.id,
                tenant=run.principal.tenant,
                creator=run.principal.id,
                visibility=run.state.visibility,
                conversation_id=run.state.conversation_id,
                stored=run.stored,
                status="in_progress",
                parent=None,
                input=b"",
                output=b"",
            )
        turn = self._turns.get(response_id)
        if turn is None and response_id.startswith("resp_"):
            turn = turn_of_chain(await self._reader.chain(response_id, principal.tenant))
            if turn is not None:
                self.remember_turn(turn)
        if turn is None or not _may_continue(principal, turn):
            return None
        return turn


def _items_of(row: StoredResponse, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Items of a response by the ids that clients know: of its output, and of its input."""
    output: list[dict[str, Any]] = orjson.loads(row.response).get("output") or []
    found = find_items(row.id, row.input, ids)
    return found | {item["id"]: item for item in output if item.get("id") in ids}


def _size(turn: Turn) -> int:
    return len(turn.input) + len(turn.output) + len(turn.compacted or b"")


async def _as_it_stands(run: Followed) -> tuple[bytes, int]:
    assert isinstance(run, Run)
    return run.response(), run.log.head


def live_state(run: Followed) -> dict[str, Any]:
    """The state of a live run, with the head that readers here see."""
    return run.state.row() | {"head": run.log.shown}


def may_see(principal: Principal, run: Run) -> bool:
    return principal.may_see(run.principal.tenant, run.principal.id, run.state.visibility)


def _may_continue(principal: Principal, turn: Turn) -> bool:
    """History stays in its tenant, whatever the role: the new run belongs to the asker's tenant."""
    return turn.tenant == principal.tenant and principal.may_see(turn.tenant, turn.creator, turn.visibility)


def not_found(response_id: str) -> RequestError:
    return RequestError(
        f"Response with id '{response_id[:80]}' not found.", code="response_not_found", param="response_id"
    )
