"""Who is attached on this node to which run, made known to whoever owns the run.

For a run of this node that is told at once. Another owner is told over the bus, one message at a time and run, as
often as it takes: what a dead or silent node did not hear is said as a whole to the next one that answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from antiphon.core.participants import Participant, Presence
from antiphon.errors import StorageError
from antiphon.journal.contract import Journal
from antiphon.ports import Bus
from antiphon.runs.elsewhere.messages import COMPANY, CompanyNews, Guest, pack_news, read_told
from antiphon.runs.elsewhere.visitors import Visitors, stand_in
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.run import CreatorConnection, Followed, Run
from antiphon.runs.supervisor import Supervisor

log = structlog.get_logger(__name__)

_ANSWER_WITHIN_S = 5.0
_SAID_WITHIN_S = 1.0
"""How long somebody who attaches waits until the owner knows of it."""

_AGAIN_S = (0.2, 0.6)
"""Between attempts to tell an owner that does not answer, or that nobody knows."""


@dataclass(slots=True)
class _Member:
    """A connection of this node. times: how often it is attached. socket: if the run was created over it."""

    participant: Participant
    times: int = 0
    creator: bool = False
    socket: CreatorConnection | None = None

    def guest(self) -> Guest:
        said_hello = self.socket.said_hello if self.socket is not None else None
        return Guest(self.participant, self.creator, said_hello)


@dataclass(slots=True, eq=False)
class _Visit:
    """Everybody here who is attached to one run.

    home: the run, while this node owns it. owner: the node that was told last. whole: it has to hear everything;
    unsaid: something. said_listeners: how many it knows of; changed: connections it does not know (any more) as
    they are. state: the RunState row with which it answered.
    """

    run: Followed
    home: Run | None = None
    listeners: int = 0
    members: dict[str, _Member] = field(default_factory=dict)
    owner: str = ""
    whole: bool = True
    unsaid: bool = False
    said_listeners: int = 0
    changed: set[str] = field(default_factory=set)
    state: dict[str, Any] | None = None
    task: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self.listeners and not self.members

    @property
    def is_known(self) -> bool:
        """Whether what changed has changed back, or was said meanwhile: an attach listens twice for a moment."""
        return not self.whole and not self.changed and self.listeners == self.said_listeners

    def news(self) -> CompanyNews:
        """What the owner is told now."""
        there = self.members if self.whole else self.changed & self.members.keys()
        guests = [self.members[connection].guest() for connection in there]
        gone = [] if self.whole else sorted(self.changed - self.members.keys())
        return CompanyNews(self.run.id, self.whole, self.listeners, guests, gone)


class Company:
    """Participants and listeners by run. own: a run of this node by its id."""

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        own: Callable[[str], Run | None],
        supervisor: Supervisor,
        held: HeldRuns,
        visitors: Visitors,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._own = own
        self._supervisor = supervisor
        self._held = held
        self._visitors = visitors
        self._visits: dict[str, _Visit] = {}

    # What sessions say

    def listened(self, run: Followed) -> None:
        """One more attachment to a run: while there is one, the run is not abandoned."""
        visit = self._visit(run)
        visit.listeners += 1
        if visit.home is not None:
            self._supervisor.listened(visit.home)
        else:
            self._say(visit)

    def unlistened(self, run: Followed) -> None:
        """One attachment less."""
        visit = self._visit(run)
        visit.listeners -= 1
        if visit.home is not None:
            self._supervisor.left(visit.home)
            self._let_go(visit)
        else:
            self._say(visit)

    def joined(
        self,
        run: Followed,
        participant: Participant,
        *,
        creator: bool = False,
        socket: CreatorConnection | None = None,
    ) -> None:
        """A connection is attached to a run (once more). creator: it created the run; socket: if it is one."""
        visit = self._visit(run)
        member = visit.members.setdefault(participant.connection, _Member(participant))
        member.times += 1
        if creator:
            member.creator, member.socket = True, socket
        if visit.home is not None:
            self._held.joined(visit.home, participant, creator=creator)
        elif member.times == 1 or creator:
            self._say(visit, participant.connection)

    def left(self, run: Followed, connection: str) -> None:
        """One attachment of a connection is over."""
        visit = self._visit(run)
        member = visit.members.get(connection)
        if member is not None:
            member.times -= 1
            if member.times <= 0:
                del visit.members[connection]
        if visit.home is not None:
            self._held.left(visit.home, connection)
            self._let_go(visit)
        elif connection not in visit.members:
            self._say(visit, connection)

    def introduced(self, run: Followed, participant: Participant) -> None:
        """A connection that is attached said hello."""
        visit = self._visits.get(run.id)
        member = visit.members.get(participant.connection) if visit is not None else None
        if visit is None or member is None:
            return
        known = member.participant
        member.participant = replace(participant, state=known.state, label=known.label)
        if visit.home is not None:
            self._held.introduced(visit.home, participant)
        else:
            self._say(visit, participant.connection)

    def shown(self, run: Followed, connection: str, state: Presence, label: str | None) -> bool:
        """What the people behind a connection do; False if it is not attached to this run."""
        visit = self._visits.get(run.id)
        member = visit.members.get(connection) if visit is not None else None
        if visit is None or member is None:
            return False
        member.participant = replace(member.participant, state=state, label=label)
        if visit.home is not None:
            return self._held.shown(visit.home, connection, state, label)
        self._say(visit, connection)
        return True

    async def said(self, run_id: str) -> dict[str, Any] | None:
        """Wait a moment until the other node that owns the run knows who is attached here; the state it then told.

        None for a run of this node, and if it took too long.
        """
        visit = self._visits.get(run_id)
        if visit is None or visit.home is not None:
            return None
        if visit.task is not None:
            await asyncio.wait([visit.task], timeout=_SAID_WITHIN_S)
        return visit.state if not visit.unsaid and visit.task is None else None

    # What is known of owners

    def owner_changed(self, run_id: str) -> None:
        """A run was taken by another node, by this one or from this one: who owns it now is told everything."""
        home = self._home_of(run_id)
        if home is None:
            self._visitors.forget(run_id)
        visit = self._visits.get(run_id)
        if visit is None or (home is not None and visit.home is home):
            return
        visit.home, visit.owner = home, ""
        if home is not None:
            self._say_here(visit, home)
        elif not visit.is_empty:
            self._say_whole(visit)

    def node_gone(self, node: str) -> None:
        """A node is dead, and so are the connections it had."""
        self._visitors.node_gone(node)

    def say_again(self) -> None:
        """The bus was away: other nodes may take this one's guests for gone."""
        for visit in list(self._visits.values()):
            if visit.home is None:
                self._say_whole(visit)

    async def aclose(self) -> None:
        """Tell nobody any more."""
        tasks = [visit.task for visit in self._visits.values() if visit.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Telling

    def _visit(self, run: Followed) -> _Visit:
        visit = self._visits.get(run.id)
        if visit is None:
            home = self._home_of(run.id)
            if home is None and isinstance(run, Run) and not run.lost:
                home = run  # it has ended and is only forgotten already
            visit = self._visits[run.id] = _Visit(run, home)
        elif visit.home is not None and visit.home.lost:
            self.owner_changed(run.id)
        return visit

    def _home_of(self, run_id: str) -> Run | None:
        run = self._own(run_id)
        return run if run is not None and not run.lost else None

    def _let_go(self, visit: _Visit) -> None:
        if visit.is_empty and self._visits.get(visit.run.id) is visit:
            del self._visits[visit.run.id]

    def _say_here(self, visit: _Visit, home: Run) -> None:
        """This node owns the run now."""
        for _ in range(visit.listeners):
            self._supervisor.listened(home)
        for member in visit.members.values():
            if member.socket is not None:
                stand_in(home, member.socket)
            for _ in range(member.times):
                self._held.joined(home, member.participant, creator=member.creator)

    def _say_whole(self, visit: _Visit) -> None:
        visit.whole = True
        self._say(visit)

    def _say(self, visit: _Visit, connection: str | None = None) -> None:
        visit.unsaid = True
        if connection is not None:
            visit.changed.add(connection)
        if visit.task is None:
            visit.task = asyncio.get_running_loop().create_task(self._tell(visit), name=f"tell {visit.run.id}")

    async def _tell(self, visit: _Visit) -> None:
        """Tell the owner until it knows everything; what changes meanwhile goes with the next message."""
        try:
            while visit.unsaid and visit.home is None:
                if visit.is_known:
                    visit.unsaid = False
                    break
                owner = await self._tell_once(visit)
                if owner is True:
                    continue
                visit.whole, visit.unsaid, visit.owner = True, True, ""
                if visit.run.log.ended or (visit.is_empty and owner is None):
                    break  # nobody is there who would have to know
                await asyncio.sleep(random.uniform(*_AGAIN_S))
        except Exception:
            log.exception("company_crashed", response_id=visit.run.id)
        finally:
            visit.task = None
            self._let_go(visit)

    async def _tell_once(self, visit: _Visit) -> bool | None:
        """Whether the owner has heard everything there was to say; None if there is no owner."""
        try:
            visit.owner = visit.owner or await self._find_owner(visit.run.id)
            if not visit.owner:
                return None
            news = visit.news()
            visit.unsaid = visit.whole = False
            visit.said_listeners = visit.listeners
            visit.changed.clear()
            state = read_told(await self._bus.ask(visit.owner, COMPANY, pack_news(news), _ANSWER_WITHIN_S))
        except StorageError:
            return False
        if state is None:
            return None
        visit.state = state
        return True

    async def _find_owner(self, run_id: str) -> str:
        """The other node that has the run, empty if there is none."""
        live = await self._journal.find(run_id)
        return live.owner if live is not None and live.owner != self._bus.node else ""
