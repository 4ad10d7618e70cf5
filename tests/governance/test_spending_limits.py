"""A run that has nothing left to spend, or that somebody stopped, makes no further call of a model (K)."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.principal import LOCAL
from tests.contract.own_tools import begun, ended
from tests.contract.playing import MODEL, USAGE, Stage, call, keyed, response, says, stage, types
from tests.support.ws_client import Event

EACH = sum(USAGE.values())
DO = says(call("do", key="weather-in-oslo"))
OTHER = says(call("do", key="the-tide-in-bergen"))
DONE = says(("text", "All is done."))


def entries(it: Stage, name: str) -> list[dict[str, Any]]:
    return [entry.data for entry in it.server.app.lifecycle.since("default", 0) or [] if entry.event == name]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"budget": [{"period": "day", "tokens": 2 * EACH}]}, "budget_exceeded"),
        (
            {
                "budget": [{"period": "month", "cost": "0.000016"}],
                "price": [{"model": MODEL, "input": 1, "output": 1}],
            },
            "budget_exceeded",
        ),
        ({"tenant": [{"id": "default", "quotas": {"tokens_per_month": 2 * EACH}}]}, "quota_exceeded"),
    ],
)
async def test_a_run_that_reaches_a_limit_ends_incomplete_before_its_next_model_call(
    settings: dict[str, Any], reason: str
) -> None:
    async with stage(DO, OTHER, DONE, has=[keyed("do")], **settings) as it:
        events = await it.run()
        assert events[-1]["type"] == "response.incomplete"
        assert response(events)["incomplete_details"] == {"reason": reason}
        assert types(response(events)["output"]) == ["mcp_call", "mcp_call"]
        assert response(events)["usage"]["total_tokens"] == 2 * EACH
        assert len(it.stub.requests) == 2
        error = await it.refusal()
        assert (error["status"], error["code"], len(it.stub.requests)) == (429, reason, 2)


async def test_a_compaction_is_a_model_call_that_a_limit_forbids_as_well() -> None:
    async with stage(DO, DONE, has=[keyed("do")], budget=[{"period": "day", "tokens": EACH}]) as it:
        automatic = [{"type": "compaction", "compact_threshold": 1000}]
        events = await it.run("word " * 2000, context_management=automatic)
        assert response(events)["incomplete_details"] == {"reason": "budget_exceeded"}
        assert len(it.stub.requests) == 1


async def test_what_a_run_cost_is_in_its_events_and_in_its_state() -> None:
    price = [{"model": MODEL, "input": 2, "output": 10}]
    each = (USAGE["input_tokens"] * 2 + USAGE["output_tokens"] * 10) / 1e6
    async with stage(DO, DONE, has=[keyed("do")], price=price) as it:
        events = await it.run()
        assert [data["cost"] for data in entries(it, "run.usage")] == [each, each]
        assert entries(it, "run.completed")[0]["cost"] == 2 * each
        assert it.server.app.registry.get(response(events)["id"]).cost == 2 * each


async def test_without_a_price_the_cost_is_unknown() -> None:
    async with stage(DONE) as it:
        events = await it.run()
        assert [data["cost"] for data in entries(it, "run.usage")] == [None]
        assert it.server.app.registry.get(response(events)["id"]).cost is None


async def _in_a_tool(it: Stage, key: str) -> None:
    """Start a run, and wait until it is in the tool of its first round."""
    await it.client.create(MODEL, input="go")
    await begun[key].wait()


async def _out_of_it(it: Stage, gate: str) -> list[Event]:
    ended[gate].set()
    return await it.client.collect_run()


@pytest.mark.parametrize("everybody", [False, True])
async def test_a_pause_or_stop_with_cancel_meets_a_run_at_its_next_boundary(everybody: bool) -> None:
    gate, key = f"gate-{everybody}", f"held-by-{everybody}"
    async with stage(says(call("do", key=key, after=[gate])), DONE, has=[keyed("do")]) as it:
        standing = it.server.app.accounts.standing
        standing.on_stop = lambda tenant: None  # a node that cancels nothing by itself: only the boundary is left
        await _in_a_tool(it, key)
        if everybody:
            await standing.stop(LOCAL, cancel=True)
        else:
            await standing.pause(LOCAL, "default", cancel=True)
        events = await _out_of_it(it, gate)
        assert events[-1]["type"] == "response.incomplete"
        assert (response(events)["status"], len(it.stub.requests)) == ("cancelled", 1)
        assert entries(it, "run.cancelled")[0]["by"] == "system:stopped"


async def test_a_pause_without_cancel_leaves_what_runs_alone() -> None:
    async with stage(says(call("do", key="left-alone", after=["gate-alone"])), DONE, has=[keyed("do")]) as it:
        await _in_a_tool(it, "left-alone")
        await it.server.app.accounts.standing.pause(LOCAL, "default")
        events = await _out_of_it(it, "gate-alone")
        assert (response(events)["status"], len(it.stub.requests)) == ("completed", 2)
