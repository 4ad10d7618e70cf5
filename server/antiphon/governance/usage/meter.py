"""What runs use: each call of a model is charged when it returns, and budgets are looked at before each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from antiphon.core.budgets import BudgetAlert, Spender, Spending, spendings
from antiphon.core.periods import DAY_S
from antiphon.core.prices import Price, amount, tokens_of
from antiphon.core.quotas import tokens_counter
from antiphon.errors import StorageError
from antiphon.governance.admission.admission import Admission
from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.standing import Standing
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.ports import Clock
from antiphon.store.usage import CallRow

log = structlog.get_logger(__name__)

_RUNS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Charge:
    """One call of a model. step: the round, or a name of another call such as `compaction:2`, unique in the run.

    model: as clients name it. usage: as the Responses API has it. estimated: the upstream gave none.
    """

    step: int | str
    model: str
    upstream: str
    usage: Mapping[str, Any]
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class ChargeResult:
    """cost_nano: billionths of the currency of the prices, None if the model has no price. repeated: this step of
    the run was charged before, and nothing changed."""

    cost_nano: int | None
    repeated: bool

    @property
    def cost(self) -> float | None:
        """As it stands in JSON."""
        return amount(self.cost_nano)


class Meter:
    """on_alert: called when a budget reaches 80 %, once per budget, tenant and period."""

    def __init__(
        self,
        *,
        limits: Limits,
        prices: Mapping[str, Price],
        ledger: Ledger,
        rows: WriteBehind,
        standing: Standing,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._prices = prices
        self._ledger = ledger
        self._rows = rows
        self._standing = standing
        self._admission = admission
        self._clock = clock
        self._charged: dict[str, set[str]] = {}
        """Steps by run; the runs that were charged last."""
        self.on_alert: Callable[[BudgetAlert], None] = lambda alert: None
        rows.on_repeat = self._repeated

    async def may_call(self, spender: Spender) -> str | None:
        """None if the run may call a model now, else why not: `budget_exceeded`, `quota_exceeded`, or `cancelled`
        where its tenant or the whole server was stopped. Never raises.

        While nobody can say what is used, it may: what it uses is charged later, and a node that has lost the
        others is suspended anyway.
        """
        if self._standing.cancels(spender.tenant):
            return "cancelled"
        at = self._clock.now()
        try:
            of_run = (spender.tenant, spender.tier, spender.principal, spender.agent)
            checks = self._limits.checks_of_call(*of_run, at)
            over = await self._ledger.first_over(spender.tenant, checks, at) if checks else None
        except StorageError as error:
            log.warning("usage_not_checked", response_id=spender.run_id, error=str(error))
            over = None
        if over is not None:
            return over.code
        self._admission.called(spender.run_id)
        return None

    def charge(self, spender: Spender, charge: Charge) -> ChargeResult:
        """Record a call. Returns at once; the row is durable a little later."""
        tokens = tokens_of(charge.usage)
        price = self._prices.get(charge.model)
        cost_nano = None if price is None else price.cost_nano(tokens)
        step = str(charge.step)
        if not self._is_new(spender.run_id, step):
            return ChargeResult(cost_nano, repeated=True)
        at = self._clock.now()
        row = CallRow(
            run_id=spender.run_id,
            step=step,
            tenant=spender.tenant,
            principal=spender.principal,
            agent=spender.agent,
            model=charge.model,
            upstream=charge.upstream,
            at=at,
            day=int(at // DAY_S),
            input_tokens=tokens.input,
            cached_tokens=tokens.cached,
            output_tokens=tokens.output,
            reasoning_tokens=tokens.reasoning,
            total_tokens=tokens.total,
            cost_nano=cost_nano,
            estimated=charge.estimated,
        )
        self._admission.called(spender.run_id)
        added = self._limits.spendings(spender, at, tokens.total, cost_nano)
        if added:
            self._ledger.spend(spender, step, added, at)
        self._rows.called(row)
        return ChargeResult(cost_nano, repeated=False)

    def alert(self, alert: BudgetAlert) -> None:
        """A budget is nearly spent."""
        log.warning(
            "budget_alert",
            tenant=alert.tenant,
            budget=alert.scope,
            kind=alert.kind,
            used=alert.used,
            limit=alert.limit,
        )
        self.on_alert(alert)

    def _is_new(self, run_id: str, step: str) -> bool:
        steps = self._charged.pop(run_id, None)
        if steps is None:
            steps = set()
            if len(self._charged) >= _RUNS_REMEMBERED:
                del self._charged[next(iter(self._charged))]
        self._charged[run_id] = steps  # the newest last
        if step in steps:
            return False
        steps.add(step)
        return True

    def _repeated(self, call: CallRow) -> None:
        """The row was there: a process before this one has charged the call."""
        budgets = self._limits.budgets(call.tenant, call.principal, call.agent)
        added = spendings(budgets, call.at, call.total_tokens, call.cost_nano)
        added.append(Spending(tokens_counter(call.at), call.total_tokens))
        self._ledger.unspend(call.tenant, added)
