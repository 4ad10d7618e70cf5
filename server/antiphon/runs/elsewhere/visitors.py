"""The owner's side of presence: who is attached to its runs on other nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon.core.participants import Participant
from antiphon.runs.elsewhere.messages import CompanyNews, Guest
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.run import CreatorConnection, Run
from antiphon.runs.supervisor import Supervisor

_TIDY_FROM = 256
"""From so many runs on it is looked for those that have ended and whose guests' nodes said nothing more."""


@dataclass(slots=True)
class _Party:
    """What one node last said of a run. run: to whom it was applied."""

    run: Run
    listeners: int = 0
    guests: dict[str, Guest] = field(default_factory=dict)


class Visitors:
    """Guests by run and node. own: a run of this node by its id."""

    def __init__(self, own: Callable[[str], Run | None], supervisor: Supervisor, held: HeldRuns) -> None:
        self._own = own
        self._supervisor = supervisor
        self._held = held
        self._parties: dict[str, dict[str, _Party]] = {}
        self._tidy_at = _TIDY_FROM

    def told(self, node: str, news: CompanyNews) -> dict[str, Any] | None:
        """A node says who is attached there. The state with them in it.

        None if the run is not of this node, or if what changed there says nothing because the rest is not known.
        """
        run = self._own(news.run_id)
        if run is None or run.lost:
            self.forget(news.run_id)
            return None
        party = self._parties.get(news.run_id, {}).get(node)
        if party is None or party.run is not run:
            if not news.whole:
                return None
            party = self._welcome(run, node)
        self._count(party, news.listeners)
        gone = set(news.gone)
        if news.whole:
            gone = party.guests.keys() - {guest.participant.connection for guest in news.guests}
        for guest in news.guests:
            self._came(party, guest)
        for connection in gone:
            self._went(party, connection)
        if not party.listeners and not party.guests:
            self._part(run, node)
        return run.state.row() | {"head": run.log.shown}

    def node_gone(self, node: str) -> None:
        """A node is dead: everybody who was attached there has left."""
        for run_id in [run_id for run_id, parties in self._parties.items() if node in parties]:
            self.told(node, CompanyNews(run_id, whole=True, listeners=0))

    def forget(self, run_id: str) -> None:
        """The run is another node's now: that one is told by its guests' nodes."""
        self._parties.pop(run_id, None)

    def _welcome(self, run: Run, node: str) -> _Party:
        if len(self._parties) >= self._tidy_at:
            self._tidy()
        party = self._parties.setdefault(run.id, {})[node] = _Party(run)
        return party

    def _part(self, run: Run, node: str) -> None:
        parties = self._parties[run.id]
        del parties[node]
        if not parties:
            del self._parties[run.id]

    def _tidy(self) -> None:
        for run_id in [run_id for run_id in self._parties if self._own(run_id) is None]:
            del self._parties[run_id]
        self._tidy_at = max(_TIDY_FROM, 2 * len(self._parties))

    def _count(self, party: _Party, listeners: int) -> None:
        for _ in range(party.listeners, listeners):
            self._supervisor.listened(party.run)
        for _ in range(listeners, party.listeners):
            self._supervisor.left(party.run)
        party.listeners = listeners

    def _came(self, party: _Party, guest: Guest) -> None:
        """Somebody came, or is not quite the one they were."""
        who = guest.participant
        known = party.guests.get(who.connection)
        party.guests[who.connection] = guest
        if guest.creator and guest.said_hello is not None:
            stand_in(party.run, CreatorConnection(who.connection, who.instance, guest.said_hello))
        if known is None or guest.creator != known.creator:
            self._held.joined(party.run, who, creator=guest.creator)
            if known is not None:
                self._held.left(party.run, who.connection)
        if known is not None and _introduction(known.participant) != _introduction(who):
            self._held.introduced(party.run, who)
        if known is not None and (known.participant.state, known.participant.label) != (who.state, who.label):
            self._held.shown(party.run, who.connection, who.state, who.label)

    def _went(self, party: _Party, connection: str) -> None:
        if party.guests.pop(connection, None) is None:
            return
        creator = party.run.create.connection
        if creator is not None and creator.id == connection:
            creator.open = False
        self._held.left(party.run, connection)


def stand_in(run: Run, creator: CreatorConnection) -> None:
    """The socket a run was created over, known to an owner that did not take the create itself."""
    known = run.create.connection
    if known is None and run.state.origin == "websocket":
        run.create = replace(run.create, connection=creator)
    elif known is not None and known.id == creator.id:
        known.instance, known.said_hello, known.open = creator.instance, creator.said_hello, creator.open


def _introduction(participant: Participant) -> Participant:
    """Who somebody is, whatever they do."""
    return replace(participant, state="watching", label=None)
