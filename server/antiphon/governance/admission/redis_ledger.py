"""The ledger that all nodes of a cluster share, in Redis."""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from antiphon.bus.redis.keys import admission, run_meta
from antiphon.bus.tasks import end_tasks
from antiphon.core.budgets import BudgetAlert, Spender, Spending
from antiphon.core.periods import DAY_S, start_of
from antiphon.core.quotas import Check, refuse_slot
from antiphon.errors import AntiphonError, BusError
from antiphon.governance.admission import redis_scripts as lua
from antiphon.governance.admission.limits import Claim, Limits
from antiphon.governance.admission.redis_outbox import Outbox
from antiphon.governance.admission.refusals import refuse_held
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.journal.redis.exchange import ask, ask_all
from antiphon.journal.redis.scripts import Call, Script, run_script, run_scripts
from antiphon.ports import Clock
from antiphon.store.standing import EVERYBODY

log = structlog.get_logger(__name__)

PENDING_S = 60.0
"""How long a reservation may wait for its commit: longer than middleware may take. A node that dies leaks none."""
COUNTERS_TTL_MS = 3_600_000
"""Counters of a tenant that does nothing go, and are made from the rows again."""
RUNS_TTL_MS = 2 * DAY_S * 1000
OVER_TTL_MS = 600_000
"""How long it is known that a run is over: longer than a change of it is sent again."""
SWEEP_S = 30.0
RECONCILE_EVERY_S = 1.0
UNSEEN_S = 60.0
"""How old a slot has to be before the log of its run is looked for."""
_SPENT_WITHIN_S = 2.0
_KEEP_COUNTERS_S = 45 * DAY_S


class RedisLedger:
    """See `Ledger`. commands: gives the client, once there is one.

    Reserving is one round trip. Everything else is sent behind, in the order in which it happened here.
    """

    def __init__(self, commands: Callable[[], Redis], limits: Limits, rows: WriteBehind, clock: Clock) -> None:
        self._commands = commands
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._outbox = Outbox(commands)
        self._tenant_of: dict[str, str] = {}
        """By run that has a slot and is here."""
        self._tenants: dict[str, float] = {}
        """That had runs here, and when their slots were looked after last (monotonic seconds)."""
        self._spending: dict[str, asyncio.Future[None]] = {}
        """By tenant, until Redis has taken its last call of a model."""
        self._counting: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self.on_alert: Callable[[BudgetAlert], None] = lambda alert: None

    async def reserve(self, claim: Claim) -> None:
        self._tenants.setdefault(claim.tenant, -math.inf)
        try:
            reply = await self._ask(claim)
            if reply == b"count":
                await self._count(claim.tenant, claim.at)
                reply = await self._ask(claim)
            if reply == b"slots" and await self._reconcile_once(claim.tenant):
                reply = await self._ask(claim)
            self._admit(claim, reply)
        except AntiphonError as error:
            if isinstance(error, BusError):  # it may have been done
                self.give_back(claim)
            raise
        except BaseException:
            self.give_back(claim)
            raise
        self._tenant_of[claim.run_id] = claim.tenant

    def commit(self, claim: Claim) -> None:
        now_ms = self._now_ms()
        self._send(lua.COMMIT, claim, _PARTS, [claim.run_id, now_ms, RUNS_TTL_MS, *claim.takes])

    def give_back(self, claim: Claim) -> None:
        self.let_go(claim.run_id)
        self._send(lua.GIVE_BACK, claim, _PARTS, [claim.run_id, OVER_TTL_MS, claim.at, *claim.takes])

    def end(self, claim: Claim) -> None:
        self.let_go(claim.run_id)
        self._send(lua.END, claim, ("slots",), [claim.run_id, OVER_TTL_MS])

    def hold(self, tenant: str, run_id: str) -> None:
        self._tenants.setdefault(tenant, -math.inf)
        self._tenant_of[run_id] = tenant
        self._outbox.add(self._holding(tenant, [run_id]))

    def let_go(self, run_id: str) -> None:
        self._tenant_of.pop(run_id, None)

    def spend(self, spender: Spender, step: str, spendings: Sequence[Spending], at: float) -> None:
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(before: list[int] | None) -> None:
            if not taken.done():
                taken.set_result(None)
            if self._spending.get(spender.tenant) is taken:
                del self._spending[spender.tenant]
            for spending, was in zip(spendings, before or (), strict=False):  # nothing comes for a repeat
                alert = spending.alert(spender, was)
                if alert is not None:
                    self.on_alert(alert)

        keys = (admission(spender.tenant, "counters"), _run(spender.tenant, spender.run_id))
        added = [value for spending in spendings for value in (spending.counter, spending.amount)]
        flag = self._flag(spender.tenant, at)
        self._spending[spender.tenant] = taken
        self._outbox.add((lua.SPEND, keys, [step, flag, COUNTERS_TTL_MS, RUNS_TTL_MS, *added]), answered)

    def unspend(self, tenant: str, spendings: Sequence[Spending]) -> None:
        """Redis knows by itself what was counted before."""

    async def first_over(self, tenant: str, checks: Sequence[Check], at: float) -> Check | None:
        if tenant in self._spending:  # what was called just now counts
            await asyncio.wait([self._spending[tenant]], timeout=_SPENT_WITHIN_S)
        flag, key = self._flag(tenant, at), admission(tenant, "counters")
        wanted = [flag, *(check.counter for check in checks)]
        made, *values = await ask(self._commands(), "HMGET", key, *wanted)
        if made is None:
            await self._count(tenant, at)
            _, *values = await ask(self._commands(), "HMGET", key, *wanted)
        pairs = zip(checks, values, strict=True)
        return next((check for check, value in pairs if int(value or 0) >= check.limit), None)

    async def set_standing(self, scope: str, revision: int, held: bool) -> None:
        keys, values = (admission(scope, "held"),), (revision, int(held), RUNS_TTL_MS)
        await run_script(self._commands(), lua.SET_HELD, keys, values)

    def start(self) -> None:
        self._outbox.start()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever(), name="admission sweep")

    async def aclose(self) -> None:
        await end_tasks([self._sweeper, *self._counting.values()])
        await self._outbox.aclose()

    async def flush(self) -> None:
        """Until Redis has taken everything that happened so far."""
        await self._outbox.flush()

    async def _ask(self, claim: Claim) -> Any:
        now_ms = self._now_ms()
        checks = [value for check in claim.checks for value in (check.counter, check.limit)]
        slots = "" if claim.slots is None else claim.slots
        flag = self._flag(claim.tenant, claim.at)
        until_ms = now_ms + round(PENDING_S * 1000)
        values = [claim.run_id, now_ms, until_ms, COUNTERS_TTL_MS, RUNS_TTL_MS, flag, slots, claim.at]
        values.append(len(claim.checks))
        keys = [*_keys(claim, _PARTS), admission(claim.tenant, "held")]
        stopped: Call = (lua.HELD, (admission(EVERYBODY, "held"),), ())
        answers = await run_scripts(
            self._commands(), [stopped, (lua.RESERVE, keys, [*values, *checks, *claim.takes])]
        )
        for answer in answers:
            if isinstance(answer, Exception):
                raise BusError("Redis refused a reservation.", headers={"retry-after": "2"}) from answer
        if answers[0] == 1:
            self.give_back(claim)
            raise refuse_held(everybody=True)
        return answers[1]

    def _admit(self, claim: Claim, reply: Any) -> None:
        """Raises what stands in the way."""
        if isinstance(reply, int):
            raise claim.checks[reply].refusal(claim.at)
        if reply == b"slots":
            raise refuse_slot()
        if reply == b"held":
            raise refuse_held(everybody=False)
        if reply != b"ok":
            raise BusError("Usage could not be counted.", headers={"retry-after": "2"})

    async def _count(self, tenant: str, at: float) -> None:
        """Make the counters of a tenant from the rows, once however many wait for it. Raises StorageError.

        Redis may have lost everything: runs that are here take their slots again, those of other nodes within
        `SWEEP_S`. Calls that other nodes are charging in this moment can be missed: they keep rows for 20 ms.
        """
        key = (tenant, self._flag(tenant, at))
        task = self._counting.get(key)
        if task is None:
            counted = self._rows.count(tenant, self._limits.counters(tenant, at))
            task = asyncio.get_running_loop().create_task(
                self._make_counters(*key, at, counted), name=f"counting usage of {tenant}"
            )
            self._counting[key] = task
            task.add_done_callback(lambda _: self._counting.pop(key, None))
        await asyncio.shield(task)

    async def _make_counters(
        self, tenant: str, flag: str, at: float, counted: Coroutine[Any, Any, dict[str, int]]
    ) -> None:
        values = [part for pair in (await counted).items() for part in pair]
        oldest = start_of("month", at) - _KEEP_COUNTERS_S
        keys = (admission(tenant, "counters"),)
        await run_script(self._commands(), lua.COUNT, keys, [flag, COUNTERS_TTL_MS, oldest, *values])
        await self._hold_again(tenant)

    def _flag(self, tenant: str, at: float) -> str:
        """Says that the counters were made for this month and these budgets."""
        names = "\n".join(budget.scope for budget in self._limits.budgets_of(tenant))
        return f"counted:{zlib.crc32(names.encode()):x}:{start_of('month', at)}"

    # Slots

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for tenant in list(self._tenants):
                try:
                    await self._reconcile(tenant)
                except BusError as error:
                    log.warning("slots_not_swept", error=str(error))
                except Exception:  # whatever it was must not end the sweeping
                    log.exception("slots_sweep_crashed")
            used = set(self._tenant_of.values())
            self._tenants = {tenant: at for tenant, at in self._tenants.items() if tenant in used}

    async def _reconcile_once(self, tenant: str) -> bool:
        """As `_reconcile`, but not again for a second: whoever asks in vain asks often."""
        now = self._clock.monotonic()
        if now - self._tenants.get(tenant, -math.inf) < RECONCILE_EVERY_S:
            return False
        self._tenants[tenant] = now
        return await self._reconcile(tenant)

    async def _reconcile(self, tenant: str) -> bool:
        """Runs that are here have their slots, runs that are nowhere lose them. Gives whether one was freed."""
        commands, slots = self._commands(), admission(tenant, "slots")
        await self._hold_again(tenant)
        unseen = self._now_ms() - round(UNSEEN_S * 1000)
        old = [run_id.decode() for run_id in await ask(commands, "ZRANGEBYSCORE", slots, "-inf", unseen)]
        asked = [run_id for run_id in old if run_id not in self._tenant_of]
        if not asked:
            return False
        found = await ask_all(commands, [("HMGET", run_meta(run_id), "owner", "ended") for run_id in asked])
        gone = [
            run_id for run_id, (owner, ended) in zip(asked, found, strict=True) if owner is None or ended == b"1"
        ]
        if not gone:
            return False
        await ask(commands, "ZREM", slots, *gone)
        log.info("slots_freed", tenant=tenant, runs=len(gone))
        return True

    async def _hold_again(self, tenant: str) -> None:
        here = [run_id for run_id, of in self._tenant_of.items() if of == tenant]
        if here:
            await run_scripts(self._commands(), [self._holding(tenant, here)])

    def _holding(self, tenant: str, run_ids: Sequence[str]) -> Call:
        return lua.HOLD, (admission(tenant, "slots"),), [self._now_ms(), RUNS_TTL_MS, *run_ids]

    def _send(self, script: Script, claim: Claim, parts: Sequence[str], values: Sequence[Any]) -> None:
        self._outbox.add((script, _keys(claim, parts), values))

    def _now_ms(self) -> int:
        return round(self._clock.now() * 1000)


_PARTS = ("counters", "slots", "pending", "reserved")


def _keys(claim: Claim, parts: Sequence[str]) -> list[str]:
    return [*(admission(claim.tenant, part) for part in parts), _run(claim.tenant, claim.run_id)]


def _run(tenant: str, run_id: str) -> str:
    return admission(tenant, f"run:{run_id}")
