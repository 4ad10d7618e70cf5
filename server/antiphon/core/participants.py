"""Who is attached to a run, who of them is asked to answer a call, and what others see of them (PROTOCOL 7.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from antiphon.core.principal import Role

Presence = Literal["watching", "typing", "executing"]
Identity = tuple[str, str]
"""(principal id, key of the instance or of the connection): who somebody is over several frames."""

MAX_ROWS = 100
"""With more participants RunState has counts instead of names."""


def identity(principal: str, connection: str, instance: str | None) -> Identity:
    """An instance stays who it is over reconnects; without one the connection is all there is."""
    return principal, f"instance:{instance}" if instance else f"connection:{connection}"


@dataclass(frozen=True, slots=True)
class Participant:
    """One connection that is attached to a run.

    tools: what its client can execute, by name, each with its labels. labels: of the connection.
    """

    connection: str
    principal: str
    role: Role
    instance: str | None = None
    tools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    state: Presence = "watching"
    label: str | None = None

    @property
    def identity(self) -> Identity:
        return identity(self.principal, self.connection, self.instance)

    def row(self) -> dict[str, Any]:
        return {
            "connection": self.connection,
            "principal": self.principal,
            "role": self.role,
            "state": self.state,
            "label": self.label,
        }


class Roster:
    """The participants of one run, and who created it.

    A connection may be attached in several ways at once: it is one participant until the last of them ends.
    """

    def __init__(self) -> None:
        self._attached: dict[str, Participant] = {}
        self._times: Counter[str] = Counter()
        self._creators: set[Identity] = set()

    def __len__(self) -> int:
        return len(self._attached)

    def join(self, participant: Participant, *, creator: bool = False) -> bool:
        """One more attachment of a connection; whether anything others see has changed."""
        known = self._attached.get(participant.connection)
        self._times[participant.connection] += 1
        if creator:
            self._creators.add(participant.identity)
        if known is None:
            self._attached[participant.connection] = participant
        return known is None or creator

    def created_by(self, who: Identity) -> None:
        """The create that began the run came from here, whether or not it stays attached."""
        self._creators.add(who)

    def leave(self, connection: str) -> bool:
        """One attachment less; whether the connection has left the run."""
        self._times[connection] -= 1
        if self._times[connection] > 0:
            return False
        del self._times[connection]
        return self._attached.pop(connection, None) is not None

    def introduce(self, participant: Participant) -> bool:
        """A connection that is attached has said (again) who it is; what it does stays. False: it is not here."""
        known = self._attached.get(participant.connection)
        if known is None:
            return False
        if known.identity in self._creators:
            self._creators.add(participant.identity)
        self._attached[known.connection] = replace(participant, state=known.state, label=known.label)
        return True

    def show(self, connection: str, state: Presence, label: str | None) -> bool:
        """What a participant does; False if it is not attached."""
        known = self._attached.get(connection)
        if known is None:
            return False
        self._attached[connection] = replace(known, state=state, label=label)
        return True

    def is_creator(self, who: Identity) -> bool:
        return who in self._creators

    def asked(self, tool: str | None, run_labels: Mapping[str, str]) -> list[Participant]:
        """Who is asked to answer a call, and may claim it.

        The creator's connection or instance if it is attached; else every driver that declared the tool, where
        the labels of its declaration and of its connection that the run has too are equal. tool: None for an
        approval, which needs a driver and no tool.
        """
        drivers = [p for p in self._attached.values() if p.role != "viewer"]
        creators = [p for p in drivers if p.identity in self._creators]
        return creators or [p for p in drivers if _can_run(p, tool, run_labels)]

    def rows(self) -> list[dict[str, Any]]:
        """As RunState shows them: one row each, or counts where they are many."""
        if len(self._attached) <= MAX_ROWS:
            return [participant.row() for participant in self._attached.values()]
        counts = Counter((p.role, p.state) for p in self._attached.values())
        return [{"role": role, "state": state, "count": count} for (role, state), count in sorted(counts.items())]

    def snapshot(self) -> list[list[str]]:
        """The creators as JSON: who is attached does not outlive the process."""
        return [list(who) for who in sorted(self._creators)]

    def restore(self, creators: Collection[Collection[str]]) -> None:
        for principal, key in creators:
            self._creators.add((principal, key))


def _can_run(participant: Participant, tool: str | None, run_labels: Mapping[str, str]) -> bool:
    if tool is not None and tool not in participant.tools:
        return False
    declared = participant.tools[tool] if tool is not None else {}
    return all(
        run_labels.get(key, value) == value
        for labels in (participant.labels, declared)
        for key, value in labels.items()
    )
