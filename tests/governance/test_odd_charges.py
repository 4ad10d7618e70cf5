"""Charges that are not as they should be: none of them is lost, and none costs anybody else anything."""

from __future__ import annotations

from pathlib import Path

from antiphon.core.quotas import tokens_counter
from tests.governance.nodes import caller, charge, nodes, spender
from tests.support.redis import RedisServer


async def test_a_run_whose_tier_is_gone_is_charged_and_held_to_its_budgets(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    budget = {"period": "day", "tenant": "acme", "tokens": 20}
    async with nodes(tmp_path, shared, budget=[budget]) as running:
        node = await running.start()
        gone = spender(tier="gold")
        reservation = node.accounts.admission.take_over(caller("gold"), gone.run_id, agent=None)
        assert await node.accounts.meter.may_call(gone) is None
        node.accounts.meter.charge(gone, charge(1, tokens=20))
        await node.settled()
        assert await node.accounts.meter.may_call(gone) == "budget_exceeded"
        reservation.ended()
        (row,) = await node.accounts.usage.calls_of(gone.run_id)
        assert row.total_tokens == 20
        assert await node.used("acme", tokens_counter(running.clock.at)) == 20


async def test_what_an_upstream_claims_beyond_all_measure_is_bounded_and_counting_goes_on(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    price = {"model": "m", "input": 1_000_000, "output": 1_000_000}
    tier = {"tiers": {"enterprise": {"tokens_per_month": 5_000_000_000}}}
    async with nodes(tmp_path, shared, price=[price], **tier) as running:
        node = await running.start()
        for step in range(3):
            node.accounts.meter.charge(spender(), charge(step, tokens=2**63 + 5))
        await node.settled()
        assert node.accounts._rows.lost_rows == 0 and not node.accounts._rows._failed
        for tenant in ("acme", "other"):  # both are counted from the rows now
            await node.accounts.admission.reserve(caller(tenant=tenant), f"resp_{tenant}", agent=None)
        assert await node.used("acme", tokens_counter(running.clock.at)) == 3_000_000_000
