"""The mirrors of this node: one for each run of another node that somebody here follows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import orjson

from antiphon.core.principal import Principal
from antiphon.core.response_ids import made_at
from antiphon.errors import BusError, NodeGone, StorageError
from antiphon.journal.contract import Journal, LiveRun
from antiphon.journal.log import RunLog
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus, Clock
from antiphon.runs.elsewhere.remote_run import RemoteRun, state_of
from antiphon.runs.elsewhere.tailer import TailCounts, Tailer
from antiphon.runs.run import Followed, Run
from antiphon.settings.storage import JournalSettings
from antiphon.store.responses import ResponseReader

_IDLE_S = 20.0
_ENDED_IDLE_S = 2.0
"""How long a mirror stays that nobody follows any more: longer than whoever found it may take to begin."""

_TIDY_S = 1.0

_ENDED_FRESH_S = 1.0
"""How long the mirror of an ended run is believed: it may expire, or move to the store."""

_YOUNG_S = 10.0
_YOUNG_WAIT_S = 0.5
_YOUNG_LOOK_S = 0.02
"""A client may know an id or a number before this node does: it is looked for again, for so long."""

_OWNER_WAIT_S = 1.5
"""How long the adoption of a run is waited for before who asks is told to come again."""

PING = "run.ping"
"""A message that wants nothing but an answer."""

_SUCCESSOR_WITHIN_S = 10.0
_SUCCESSOR_LOOK_S = 0.1


class RemoteRuns:
    """Mirrors by run id."""

    def __init__(
        self,
        journal: Journal,
        bus: Bus,
        reader: ResponseReader,
        registry: RunRegistry,
        clock: Clock,
        settings: JournalSettings,
    ) -> None:
        self._journal = journal
        self._bus = bus
        self._reader = reader
        self._registry = registry
        self._clock = clock
        self._settings = settings
        self._tailers: dict[str, Tailer] = {}
        self.tails = TailCounts()
        self._opening: dict[str, asyncio.Lock] = {}
        self.own: Callable[[str], Run | None] = lambda run_id: None
        """A run of this node."""
        self._task: asyncio.Task[None] | None = None

    @property
    def alone(self) -> bool:
        """Whether there are no other nodes."""
        return self._bus.alone

    def start(self) -> None:
        """Begin to let go of what nobody follows."""
        if not self._bus.alone:
            self._task = asyncio.get_running_loop().create_task(self._tidy(), name="mirrors")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for tailer in list(self._tailers.values()):
            await tailer.stop()
        self._tailers.clear()

    def get(self, run_id: str) -> RemoteRun | None:
        """The mirror of a run, if there is one."""
        tailer = self._tailers.get(run_id)
        return tailer.run if tailer is not None else None

    @property
    def behind_s(self) -> float:
        """How long the mirror that is furthest behind has lacked something."""
        return max((tailer.behind_s for tailer in self._tailers.values()), default=0.0)

    def all(self) -> list[RemoteRun]:
        return [tailer.run for tailer in self._tailers.values()]

    async def of_conversation(self, conversation_id: str) -> list[str]:
        """The unfinished stored runs of a conversation, on whatever node. Raises StorageError."""
        if self._bus.alone:
            return []
        return await self._reader.unfinished_of_conversation(conversation_id)

    def look_again(self) -> None:
        """Hints may have been missed: every mirror is compared with the journal."""
        for tailer in self._tailers.values():
            tailer.look()

    async def find(self, run_id: str, principal: Principal) -> RemoteRun | None:
        """The mirror of another node's live run, made if need be; None if there is no such run, or it is not this
        principal's to see. Raises StorageError."""
        if self._bus.alone or not run_id.startswith("resp_"):
            return None
        lock = self._opening.setdefault(run_id, asyncio.Lock())
        try:
            async with lock:
                known = await self._still_true(run_id)
                if known is None:
                    live = await self._look_up(run_id)
                    if live is None or not _may_see(principal, live):
                        return None
                    if live.owner == self._bus.node and not live.ended:
                        return None  # just beginning or ending here; one that ended here is read like any other
                    known = await self._open(live)
        finally:
            if not lock.locked():
                self._opening.pop(run_id, None)
        state = known.state
        return known if principal.may_see(state.tenant, state.principal, state.visibility) else None

    async def _still_true(self, run_id: str) -> RemoteRun | None:
        """The mirror there is, unless what it mirrors may be gone."""
        tailer, now = self._tailers.get(run_id), asyncio.get_running_loop().time()
        if tailer is None:
            return None
        stale = tailer.run.log.ended and now - tailer.begun_at >= _ENDED_FRESH_S
        if stale or tailer.run.left.is_set():
            await self._drop(run_id)
            return None
        tailer.used_at = now
        return tailer.run

    async def is_at(self, run: RemoteRun, number: int) -> None:
        """Wait until a mirror has this number, which its reader says it saw on another node.

        Returns also where its living owner has no such number, or another owner began a new epoch.
        Raises BusError, and NodeGone where nobody owns the run now, so that nobody can say.
        """
        run_log, epochs = run.log, run.log.epochs
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), False
        while run_log.shown < number and run_log.epochs is epochs:
            tailer = self._tailers.get(run.id)  # none while this node is about to take the run
            if tailer is not None:
                tailer.look()
            await asyncio.sleep(_YOUNG_LOOK_S)
            waited_s = loop.time() - begun
            # A run that is this node's own by now is found as such when its reader comes again.
            if run.owner not in ("", self._bus.node) and not asked and waited_s >= _YOUNG_WAIT_S:
                asked = True
                if await self._answers(run.owner):
                    return
            if waited_s >= _OWNER_WAIT_S:
                raise without_owner()

    async def _answers(self, node: str) -> bool:
        """Whether a node lives now: its lease only says that it did a while ago."""
        try:
            await self._bus.ask(node, PING, b"", _OWNER_WAIT_S - _YOUNG_WAIT_S)
        except BusError:
            return False
        return True

    async def _look_up(self, run_id: str) -> LiveRun | None:
        """The run in the journal. One so young that its owner may be about to write it is waited for a moment."""
        live = await self._journal.find(run_id)
        waited_s = 0.0
        while live is None and waited_s < _YOUNG_WAIT_S and self._is_young(run_id):
            await asyncio.sleep(_YOUNG_LOOK_S)
            waited_s += _YOUNG_LOOK_S
            live = await self._journal.find(run_id)
        return live

    def _is_young(self, run_id: str) -> bool:
        at = made_at(run_id)
        return at is not None and abs(self._clock.now() - at) < _YOUNG_S

    def follow(self, run: Run) -> RemoteRun:
        """This node's own run goes on elsewhere: its followers stay on the log and the state they have."""
        remote = RemoteRun(run.log, run.state, "", 0 if run.stored else run.log.first, self._successor)
        tailer = Tailer(
            remote, self._journal, self._bus, self._reader, self._registry, was_own=True, counts=self.tails
        )
        self._tailers[run.id] = tailer
        tailer.start_late()
        return remote

    async def adopted(self, run_id: str) -> RemoteRun | None:
        """This node takes the run: its mirror, if there is one, is fed by nobody else from here on."""
        tailer = self._tailers.pop(run_id, None)
        if tailer is None:
            return None
        await tailer.stop()
        return tailer.run

    def put_back(self, remote: RemoteRun) -> None:
        """This node could not take the run after all, for now."""
        tailer = Tailer(remote, self._journal, self._bus, self._reader, self._registry, counts=self.tails)
        self._tailers[remote.id] = tailer
        tailer.start_late()

    async def _open(self, live: LiveRun) -> RemoteRun:
        row = orjson.loads(live.state)
        run_log = RunLog(
            live.id,
            live.epochs,
            window_bytes=self._settings.tail_bytes,
            stored=live.stored,
            strict=False,
            head=live.head,
        )
        # Of an ended run the terminal is read last, so that who follows it is told of its end in the usual way.
        if live.ended:
            run_log.head = run_log.shown = run_log.durable = live.head - 1
            run_log.first = live.head
        remote = RemoteRun(run_log, state_of(row), live.owner, live.first, self._successor)
        tailer = Tailer(remote, self._journal, self._bus, self._reader, self._registry, counts=self.tails)
        await tailer.start()
        self._tailers[live.id] = tailer
        return remote

    async def _successor(self, run_id: str) -> Followed | None:
        """A run that was announced, once it is there."""
        deadline = asyncio.get_running_loop().time() + _SUCCESSOR_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            with contextlib.suppress(StorageError):
                if (known := self.own(run_id) or self.get(run_id)) is not None:
                    return known
                live = await self._journal.find(run_id)
                if live is not None and live.owner != self._bus.node:
                    return await self._open(live)
            await asyncio.sleep(_SUCCESSOR_LOOK_S)
        return None

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TIDY_S)
            for run_id, tailer in list(self._tailers.items()):
                if tailer.run.log.listeners:
                    tailer.used_at = loop.time()
                elif loop.time() - tailer.used_at >= (_ENDED_IDLE_S if tailer.run.log.ended else _IDLE_S):
                    await self._drop(run_id)

    async def _drop(self, run_id: str) -> None:
        tailer = self._tailers.pop(run_id, None)
        if tailer is not None:
            await tailer.stop()


def without_owner() -> NodeGone:
    """What is told where a run must be somewhere, and nobody has it now."""
    return NodeGone(
        "The node that runs this response is gone; another one takes it over. Try again in a moment.",
        headers={"retry-after": "1"},
    )


def _may_see(principal: Principal, live: LiveRun) -> bool:
    row = orjson.loads(live.state)
    return principal.may_see(row["tenant"], row["principal"], row["visibility"])
