"""Who is at the other end of a connection, and on which runs it takes part."""

from __future__ import annotations

from dataclasses import replace

from antiphon.core.held_calls import Sender
from antiphon.core.participants import Participant
from antiphon.core.participants import Presence as State
from antiphon.errors import RequestError
from antiphon.runs.engine import Engine
from antiphon.runs.run import CreatorConnection, Followed
from antiphon.session.caller import Caller
from antiphon_protocol import extension as wire


class Presence:
    """The participant that one connection is, in every run it is attached to."""

    def __init__(self, engine: Engine, caller: Caller, connection: CreatorConnection) -> None:
        self._company = engine.company
        self._caller = caller
        self._connection = connection
        self._me = Participant(connection.id, caller.principal.id, caller.principal.role)
        self._joined: dict[str, tuple[Followed, int]] = {}

    @property
    def sender(self) -> Sender:
        return Sender(self._me.principal, self._me.connection, self._me.instance)

    def hello(self, command: wire.Hello) -> None:
        """The client says who it is: its instance keeps its claims and calls over reconnects."""
        self._me = Participant(
            self._me.connection,
            self._me.principal,
            self._caller.principal.role,
            instance=command.client.instance_id,
            tools={tool.name: tool.labels or {} for tool in command.tools or ()},
            labels=command.labels or {},
        )
        self._introduce()

    def changed(self) -> None:
        """The caller showed newer credentials, which may give it less."""
        self._me = replace(self._me, role=self._caller.principal.role)
        self._introduce()

    def join(self, run: Followed, *, creator: bool = False) -> None:
        """One more attachment to a run. creator: the run was created on this connection."""
        _, times = self._joined.get(run.id, (run, 0))
        self._joined[run.id] = (run, times + 1)
        self._company.joined(run, self._me, creator=creator, socket=self._connection if creator else None)

    def leave(self, run: Followed) -> None:
        """One attachment less."""
        _, times = self._joined.pop(run.id, (run, 0))
        if times > 1:
            self._joined[run.id] = (run, times - 1)
        if times > 0:
            self._company.left(run, self._me.connection)

    def _introduce(self) -> None:
        for run, _ in self._joined.values():
            self._company.introduced(run, self._me)

    def close(self) -> None:
        """The connection is gone."""
        for run, times in list(self._joined.values()):
            for _ in range(times):
                self.leave(run)

    def show(self, response_id: str | None, conversation_id: str | None, state: State, label: str | None) -> None:
        """What the people behind this connection do on one run, or on all it watches of a conversation.

        Raises RequestError `not_attached`.
        """
        runs = [
            run
            for run, _ in self._joined.values()
            if response_id in (run.id, None) and conversation_id in (run.state.conversation_id, None)
        ]
        shown = [self._company.shown(run, self._me.connection, state, label) for run in runs]
        if not any(shown):
            raise RequestError("This connection is not attached to that.", code="not_attached")
