"""What was used: a row for each admitted run and each call of a model. Rows are the truth, counters follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from antiphon.store.writing import StoreConnection, Work


@dataclass(frozen=True, slots=True)
class AdmittedRow:
    """A run that took a unit of its tenant's requests. at: Unix seconds of its admission."""

    run_id: str
    tenant: str
    principal: str
    agent: str | None
    at: float


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call of a model, once per run and step. day: since 1 January 1970, UTC. cost_nano: None if unknown.

    estimated: the upstream gave no usage.
    """

    run_id: str
    step: str
    tenant: str
    principal: str
    agent: str | None
    model: str
    upstream: str
    at: float
    day: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int
    cost_nano: int | None
    estimated: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter counts in the rows of a tenant.

    of: runs, tokens, or billionths of money. since: Unix seconds. agent, principal: whose calls; None: all.
    """

    counter: str
    of: Literal["runs", "tokens", "cost"]
    since: float
    agent: str | None = None
    principal: str | None = None


_ADMIT = """
INSERT INTO admissions (run_id, tenant, principal, agent, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO NOTHING
"""
_GIVE_BACK = "DELETE FROM admissions WHERE run_id = ?"
_CHARGE = """
INSERT INTO model_calls (run_id, step, tenant, principal, agent, model, upstream, at, day, input_tokens,
    cached_tokens, output_tokens, reasoning_tokens, total_tokens, cost_nano, estimated)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, step) DO NOTHING
"""
_KNOWN_STEPS = "SELECT step FROM model_calls WHERE run_id = ?"
_RUNS = "SELECT COUNT(*) FROM admissions WHERE tenant = ? AND at >= ?"
_TOKENS = """
SELECT CAST(COALESCE(SUM(total_tokens), 0) AS BIGINT) FROM model_calls WHERE tenant = ? AND at >= ?
AND (CAST(? AS TEXT) IS NULL OR agent = ?) AND (CAST(? AS TEXT) IS NULL OR principal = ?)
"""
_COST = """
SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM model_calls WHERE tenant = ? AND at >= ?
AND (CAST(? AS TEXT) IS NULL OR agent = ?) AND (CAST(? AS TEXT) IS NULL OR principal = ?)
"""


def record(
    admitted: Sequence[AdmittedRow], given_back: Sequence[str], calls: Sequence[CallRow], *, tell_repeats: bool
) -> Work[list[CallRow]]:
    """Write what happened. given_back: runs whose unit is not spent after all.

    tell_repeats: give the calls that were there already; it costs a look at each run.
    """

    def work(connection: StoreConnection) -> list[CallRow]:
        if admitted:
            rows = [(row.run_id, row.tenant, row.principal, row.agent, row.at) for row in admitted]
            connection.executemany(_ADMIT, rows)
        if given_back:
            connection.executemany(_GIVE_BACK, [(run_id,) for run_id in given_back])
        looked_at = {call.run_id for call in calls} if tell_repeats else set()
        known = {run_id: _steps(connection, run_id) for run_id in looked_at}
        if calls:
            connection.executemany(_CHARGE, [_values(call) for call in calls])
        return [call for call in calls if call.step in known.get(call.run_id, ())]

    return work


def count(tenant: str, wanted: Iterable[Counted]) -> Work[dict[str, int]]:
    """What the counters of a tenant say by the rows. It reads, but in the order of the writes before it."""
    counted = list(wanted)

    def work(connection: StoreConnection) -> dict[str, int]:
        found = {}
        for one in counted:
            values: tuple[object, ...] = (tenant, one.since)
            if one.of != "runs":
                values += (one.agent, one.agent, one.principal, one.principal)
            sql = {"runs": _RUNS, "tokens": _TOKENS, "cost": _COST}[one.of]
            found[one.counter] = int(connection.execute(sql, values).fetchone()[0])
        return found

    return work


def forget(admitted_before: float, calls_before: float) -> Work[None]:
    """Delete what is too old to be counted or reported. Unix seconds."""

    def work(connection: StoreConnection) -> None:
        connection.execute("DELETE FROM admissions WHERE at < ?", (admitted_before,))
        connection.execute("DELETE FROM model_calls WHERE at < ?", (calls_before,))

    return work


def _steps(connection: StoreConnection, run_id: str) -> frozenset[str]:
    return frozenset(step for (step,) in connection.execute(_KNOWN_STEPS, (run_id,)).fetchall())


def _values(call: CallRow) -> tuple[object, ...]:
    return (
        call.run_id,
        call.step,
        call.tenant,
        call.principal,
        call.agent,
        call.model,
        call.upstream,
        call.at,
        call.day,
        call.input_tokens,
        call.cached_tokens,
        call.output_tokens,
        call.reasoning_tokens,
        call.total_tokens,
        call.cost_nano,
        int(call.estimated),
    )
