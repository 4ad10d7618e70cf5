"""Charges, budgets at work, and reports: the rows of calls are what everything is made of (acceptance H, K)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.core.budgets import BudgetAlert
from antiphon.core.quotas import tokens_counter
from antiphon.errors import RequestError, StorageError
from antiphon.governance.usage.report import Span, grouping, report
from antiphon.store import usage as usage_store
from antiphon.store.usage import Counted
from antiphon.store.usage_reports import UsageReader
from tests.governance.nodes import Node, caller, charge, nodes, spender
from tests.support.redis import RedisServer

DAY_S = 86_400
PRICES = [{"model": "m", "input": "2", "output": "8", "cached": "0.5"}]


async def admitted(node: Node, run_id: str, **fields: Any) -> None:
    (await node.accounts.admission.reserve(caller(**fields), run_id, agent=None)).commit()


async def test_a_charge_has_its_cost_at_once_and_its_row_soon(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, price=PRICES) as running:
        node = await running.start()
        usage = {
            "input_tokens": 1_000,
            "input_tokens_details": {"cached_tokens": 400},
            "output_tokens": 500,
            "output_tokens_details": {"reasoning_tokens": 300},
            "total_tokens": 1_500,
        }
        given = charge("compaction:2")
        result = node.accounts.meter.charge(spender(), type(given)("compaction:2", "m", "stub", usage))
        assert (result.cost, result.cost_nano, result.repeated) == (0.0054, 5_400_000, False)
        await node.settled()
        (row,) = await node.accounts.usage.calls_of("resp_1")
        assert (row.step, row.tenant, row.principal, row.model, row.upstream) == (
            "compaction:2",
            "acme",
            "key:k",
            "m",
            "stub",
        )
        assert (
            row.input_tokens,
            row.cached_tokens,
            row.output_tokens,
            row.reasoning_tokens,
            row.total_tokens,
        ) == (
            1_000,
            400,
            500,
            300,
            1_500,
        )
        assert (row.cost_nano, row.estimated) == (5_400_000, False)


async def test_an_unknown_price_is_no_cost_and_an_estimate_says_so(tmp_path: Path) -> None:
    async with nodes(tmp_path, None, price=PRICES) as running:
        node = await running.start()
        result = node.accounts.meter.charge(spender(), charge(model="other", estimated=True))
        assert result.cost is None
        await node.settled()
        (row,) = await node.accounts.usage.calls_of("resp_1")
        assert (row.cost_nano, row.estimated) == (None, True)


async def test_a_charge_that_is_repeated_changes_nothing_here_or_in_the_process_after(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, price=PRICES, tiers={"pro": {"tokens_per_month": 100}}) as running:
        of_run = spender(tier="pro")
        async with running.node() as node:
            await admitted(node, "resp_1", tier="pro")
            assert not node.accounts.meter.charge(of_run, charge(1, 60)).repeated
            again = node.accounts.meter.charge(of_run, charge(1, 60))
            assert again.repeated and again.cost_nano == 120_000
        async with running.node() as node:
            await admitted(node, "resp_2", tier="pro")
            node.accounts.meter.charge(of_run, charge(1, 60))
            node.accounts.meter.charge(of_run, charge(2, 30))
            await node.settled()
            assert await node.used("acme", tokens_counter(running.clock.at)) == 90
            assert await node.accounts.meter.may_call(of_run) is None
            rows = await node.accounts.usage.calls_of("resp_1")
            assert [(row.step, row.total_tokens) for row in rows] == [("1", 60), ("2", 30)]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"tiers": {"enterprise": {"tokens_per_month": 50}}}, "quota_exceeded", "Monthly token quota exceeded"),
        ({"budget": [{"period": "day", "tokens": 50}]}, "budget_exceeded", "Daily budget exceeded"),
        ({"budget": [{"period": "month", "cost": "0.0001"}]}, "budget_exceeded", "Monthly budget exceeded"),
        (
            {"budget": [{"period": "week", "tenant": "acme", "tokens": 9}]},
            "budget_exceeded",
            "Weekly budget exceeded",
        ),
    ],
)
async def test_at_the_limit_no_model_is_called_and_no_run_begins(
    tmp_path: Path, shared: RedisServer | None, settings: dict[str, Any], code: str, message: str
) -> None:
    async with nodes(tmp_path, shared, price=PRICES, **settings) as running:
        node = await running.start()
        await admitted(node, "resp_1")
        assert await node.accounts.meter.may_call(spender()) is None
        node.accounts.meter.charge(spender(), charge(1, 50))
        assert await node.accounts.meter.may_call(spender()) == code
        with pytest.raises(RequestError) as caught:
            await admitted(node, "resp_2")
        assert (caught.value.code, caught.value.message, caught.value.status) == (code, message, 429)
        assert caught.value.headers["x-should-retry"] == "false" and "retry-after" in caught.value.headers


async def test_a_budget_of_an_agent_holds_only_its_runs_and_a_new_day_begins_it_anew(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    budget = [{"period": "day", "agent": "reviewer", "tokens": 10}]
    async with nodes(tmp_path, shared, budget=budget) as running:
        node = await running.start()
        meter = node.accounts.meter
        assert await meter.may_call(spender(agent="reviewer")) is None
        meter.charge(spender(), charge(1, 99))
        await node.settled()
        assert await meter.may_call(spender(agent="reviewer")) is None
        meter.charge(spender(agent="reviewer"), charge(2, 10))
        await node.settled()
        assert await meter.may_call(spender(agent="reviewer")) == "budget_exceeded"
        assert await meter.may_call(spender(agent="writer")) is None
        assert await meter.may_call(spender(agent="reviewer", tenant="other")) is None
        running.clock.at += DAY_S
        assert await meter.may_call(spender(agent="reviewer")) is None


async def test_at_eighty_percent_one_alert_comes_whoever_spends(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, budget=[{"period": "day", "tokens": 100}]) as running:
        one = await running.start()
        two = one if shared is None else await running.start()
        alerts: list[BudgetAlert] = []
        for node in (one, two):
            node.accounts.meter.on_alert = alerts.append
        assert await one.accounts.meter.may_call(spender()) is None
        for step, node in enumerate((one, two) * 5):
            node.accounts.meter.charge(spender(), charge(step, 10))
            await node.settled()
        assert [(alert.tenant, alert.scope, alert.used, alert.limit) for alert in alerts] == [
            ("acme", "day", 80, 100)
        ]


async def test_rows_that_the_store_did_not_take_are_written_later_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(tmp_path, None, tiers={"enterprise": {"tokens_per_month": 100}}) as running:
        node = await running.start()
        await admitted(node, "resp_1")

        def refuse(*_: Any, **__: Any) -> Any:
            def work(connection: Any) -> Any:
                raise StorageError("The disk is full.")

            return work

        with monkeypatch.context() as broken:
            broken.setattr(usage_store, "record", refuse)
            node.accounts.meter.charge(spender(), charge(1, 7))
            await node.settled()
            assert await node.accounts.usage.calls_of("resp_1") == []
        await node.settled()
        assert [row.total_tokens for row in await node.accounts.usage.calls_of("resp_1")] == [7]
        assert await node.used("acme", tokens_counter(running.clock.at)) == 7
        assert running.database.rows("SELECT run_id FROM admissions") == [("resp_1",)]


async def test_a_unit_that_was_given_back_while_its_row_failed_stays_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(tmp_path, None, tiers={"enterprise": {"requests_per_month": 9}}) as running:
        node = await running.start()
        await admitted(node, "resp_0")
        await node.settled()
        with monkeypatch.context() as broken:

            def refuse(*_: Any, **__: Any) -> None:
                raise StorageError("The store is away.")

            broken.setattr(node.accounts._rows._writer, "submit", refuse)
            reservation = await node.accounts.admission.reserve(caller(), "resp_1", agent=None)
            reservation.commit()
            node.accounts._rows._submit()
            kept, node.accounts._rows._failed = node.accounts._rows._failed, []
        reservation.ended()  # it called no model
        await node.settled()
        for batch in kept:  # what failed comes back only now
            node.accounts._rows._put_back(batch, StorageError("The store is away."))
        await node.settled()
        used = await running.database.writer.submit(usage_store.count("acme", [Counted("runs", "runs", 0.0)]))
        assert used == {"runs": 1}


async def test_a_report_sums_by_what_was_asked_and_within_its_days(place: Path | str) -> None:
    from tests.store.database import database

    async with database(place) as store:
        day = 20_000
        calls = [
            ("resp_1", "1", "acme", "reviewer", "m", day, 10, 5),
            ("resp_1", "2", "acme", "reviewer", "n", day, 20, None),
            ("resp_2", "1", "acme", None, "m", day + 1, 40, 7),
            ("resp_3", "1", "other", None, "m", day + 1, 80, 9),
            ("resp_4", "1", "acme", None, "m", day + 2, 160, 1),
        ]
        rows = [
            usage_store.CallRow(
                *(run_id, step, tenant, "key:k", agent, model, "stub", at_day * DAY_S + 1.0, at_day),
                *(tokens, 0, 0, 0, tokens, cost, tokens == 40),
            )
            for run_id, step, tenant, agent, model, at_day, tokens, cost in calls
        ]
        for _ in range(2):
            await store.writer.submit(usage_store.record([], [], rows, tell_repeats=True))
        reader, span = UsageReader(store.reader), Span(day, day + 1)

        async def by(what: str, tenant: str | None = None) -> list[tuple[Any, ...]]:
            found = await report(reader, grouping(what), span, tenant)
            return [(row[what], row["runs"], row["calls"], row["total_tokens"]) for row in found["data"]]

        assert await by("tenant") == [("acme", 2, 3, 70), ("other", 1, 1, 80)]
        assert sorted(await by("agent", "acme"), key=str) == [("reviewer", 1, 2, 30), (None, 1, 1, 40)]
        assert await by("model", "acme") == [("m", 2, 2, 50), ("n", 1, 1, 20)]
        assert await by("day") == [("2024-10-04", 1, 2, 30), ("2024-10-05", 2, 2, 120)]
        total = (await report(reader, "tenant", span, "acme"))["total"]
        assert (total["cost"], total["unpriced_calls"], total["estimated_calls"]) == (12e-9, 1, 1)
        unpriced = (await report(reader, "model", Span(day, day), None))["data"][1]
        assert (unpriced["model"], unpriced["cost"]) == ("n", None)


@pytest.mark.parametrize(
    ("first", "last"), [("2026-13-01", None), (None, "today"), ("2026-02-02", "2026-02-01"), ("1990-01-01", None)]
)
def test_days_that_make_no_sense_are_refused(first: str | None, last: str | None) -> None:
    with pytest.raises(RequestError):
        Span.read(first, last, 1_790_000_000.0)


async def test_rows_that_are_too_old_are_deleted(tmp_path: Path) -> None:
    async with nodes(tmp_path, None, usage={"keep_days": 100}) as running:
        node = await running.start()
        await admitted(node, "resp_1")
        node.accounts.meter.charge(spender(), charge())
        await node.settled()
        running.clock.at += 63 * DAY_S
        await node.accounts.forget()
        assert running.database.rows("SELECT COUNT(*) FROM admissions") == [(0,)]
        assert len(await node.accounts.usage.calls_of("resp_1")) == 1
        running.clock.at += 40 * DAY_S
        await node.accounts.forget()
        assert await node.accounts.usage.calls_of("resp_1") == []
