"""What one run has taken of its tenant's quotas, until it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Claim
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.store.usage import AdmittedRow

State = Literal["reserved", "committed", "over"]


class Reservation:
    """Reserve, then commit or release; ended when the run is. Every method may be called again, and does nothing
    then. called: a model was called for the run, so that its unit is spent."""

    __slots__ = ("_claim", "_forget", "_ledger", "_row", "_rows", "_state", "called")

    def __init__(
        self,
        claim: Claim,
        row: AdmittedRow | None,
        ledger: Ledger,
        rows: WriteBehind,
        forget: Callable[[str], None],
        state: State = "reserved",
    ) -> None:
        """row: None for a run that takes no unit. forget: told the run's id when it is over."""
        self._claim = claim
        self._row = row
        self._ledger = ledger
        self._rows = rows
        self._forget = forget
        self._state: State = state
        self.called = False

    @property
    def run_id(self) -> str:
        return self._claim.run_id

    @property
    def state(self) -> State:
        return self._state

    def commit(self) -> None:
        """The journal is open: the unit is spent."""
        if self._state != "reserved":
            return
        self._state = "committed"
        if self._row is not None:
            self._rows.admitted(self._row)
            if not self._claim.is_free:
                self._ledger.commit(self._claim)

    def release(self) -> None:
        """The run did not begin: every unit back. Nothing after `commit`."""
        if self._state == "reserved":
            self._over(give_back=True)

    def ended(self, *, served: bool = False) -> None:
        """The run is over: its slot is free, and so is its unit if no model was ever called for it.

        served: it gave an answer without one, as a middleware or a skill can; its unit is spent.
        """
        spent = served or self.called
        if self._state == "committed" and self._row is not None and not spent:
            self._rows.given_back(self._row.run_id)
            self._over(give_back=True)
        elif self._state != "over":
            self._over(give_back=self._state == "reserved")

    def left(self) -> None:
        """Another node goes on with the run, and with its slot."""
        if self._state != "over":
            self._state = "over"
            self._ledger.let_go(self.run_id)
            self._forget(self.run_id)

    def _over(self, *, give_back: bool) -> None:
        self._state = "over"
        self._forget(self.run_id)
        if self._row is None and give_back:
            return  # it had taken nothing
        if self._claim.is_free:
            self._ledger.let_go(self.run_id)
        elif give_back:
            self._ledger.give_back(self._claim)
        else:
            self._ledger.end(self._claim)
