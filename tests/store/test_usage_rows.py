"""Rows of runs, calls, pauses and audits: the same on both engines, and written twice they are there once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from antiphon.store import audit, standing, usage
from antiphon.store.audit import AuditEntry
from antiphon.store.standing import ScopeStanding
from antiphon.store.usage import AdmittedRow, CallRow, Counted
from antiphon.store.usage_reports import UsageReader
from tests.store.database import database

CALL = CallRow(
    run_id="resp_1",
    step="1",
    tenant="acme",
    principal="key:k",
    agent="reviewer",
    model="m",
    upstream="stub",
    at=1_000.0,
    day=0,
    input_tokens=3_000_000_000,
    cached_tokens=1,
    output_tokens=2,
    reasoning_tokens=1,
    total_tokens=3_000_000_002,
    cost_nano=5_000_000_000_000,
    estimated=True,
)
WANTED = [
    Counted("runs", "runs", 900.0),
    Counted("later", "runs", 1_500.0),
    Counted("tokens", "tokens", 900.0),
    Counted("cost", "cost", 900.0),
    Counted("of_agent", "tokens", 900.0, agent="reviewer"),
    Counted("of_other", "tokens", 900.0, agent="writer"),
    Counted("of_key", "cost", 900.0, agent="reviewer", principal="key:k"),
    Counted("of_user", "cost", 900.0, principal="user:k"),
]


def admitted(run_id: str, at: float = 1_000.0, tenant: str = "acme") -> AdmittedRow:
    return AdmittedRow(run_id, tenant, "key:k", None, at)


async def test_counters_are_made_from_the_rows_of_their_tenant_and_time(place: Path | str) -> None:
    async with database(place) as store:
        runs = [
            admitted("resp_1"),
            admitted("resp_2", 2_000.0),
            admitted("resp_3", 10.0),
            admitted("x", tenant="b"),
        ]
        calls = [CALL, replace(CALL, step="2", agent=None, cost_nano=None), replace(CALL, step="3", at=10.0)]
        work = usage.record(runs, ["resp_9"], [*calls, replace(CALL, run_id="x", tenant="b")], tell_repeats=True)
        assert await store.writer.submit(work) == []
        assert await store.writer.submit(usage.count("acme", WANTED)) == {
            "runs": 2,
            "later": 1,
            "tokens": 6_000_000_004,
            "cost": 5_000_000_000_000,
            "of_agent": 3_000_000_002,
            "of_other": 0,
            "of_key": 5_000_000_000_000,
            "of_user": 0,
        }


async def test_rows_that_are_written_again_change_nothing_and_are_told(place: Path | str) -> None:
    async with database(place) as store:
        for repeats in ([], [CALL]):
            work = usage.record([admitted("resp_1")], [], [CALL], tell_repeats=True)
            assert await store.writer.submit(work) == repeats
        other = replace(CALL, total_tokens=9)
        assert await store.writer.submit(usage.record([], [], [other], tell_repeats=False)) == []
        assert await UsageReader(store.reader).calls_of("resp_1") == [CALL]
        assert (await store.writer.submit(usage.count("acme", WANTED)))["runs"] == 1


async def test_a_unit_that_is_given_back_is_gone_even_in_the_batch_that_took_it(place: Path | str) -> None:
    async with database(place) as store:
        await store.writer.submit(usage.record([admitted("resp_1")], ["resp_1"], [], tell_repeats=True))
        assert store.rows("SELECT run_id FROM admissions") == []


async def test_each_change_of_standing_has_a_revision_of_its_own(place: Path | str) -> None:
    async with database(place) as store:
        changes = [standing.change(f"tenant{i % 3}", held=i < 9, cancel=i == 8) for i in range(12)]
        done = await asyncio.gather(*(store.writer.submit(change) for change in changes))
        assert [one.revision for one in done] == list(range(1, 13))
        newest = await store.writer.submit(standing.changed_since(0))
        assert newest == [ScopeStanding(f"tenant{i % 3}", i + 1, False, False) for i in (9, 10, 11)]
        assert await store.writer.submit(standing.changed_since(12)) == []


async def test_an_audit_entry_is_written_once_and_together_with_what_it_is_about(place: Path | str) -> None:
    async with database(place) as store:
        entry = AuditEntry("audit_1", 5.0, "acme", "key:k", "agent.put", "agent:a", {"fields": ["model"]})
        for _ in range(2):
            work = audit.add_with(entry, standing.change("acme", held=True))
            assert (await store.writer.submit(work)).held
        reader = UsageReader(store.reader)
        assert await reader.audit(before=None, limit=5) == [entry]
        assert await reader.audit(before=5.0, limit=5) == []
