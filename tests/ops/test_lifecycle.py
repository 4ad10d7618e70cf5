"""The lifecycle log: numbers without a hole per tenant, in order, and nothing that was said."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.ops.lifecycle import ENDS, KEEP_IDLE_S, RING_ENTRIES, Entry, Lifecycle, Told
from antiphon_protocol.lifecycle import LIFECYCLE_EVENTS
from antiphon_protocol.runstate import RunState as WireState
from tests.http.calling import begin, body, create, ended, http, key_of, script, slow
from tests.ops.states import FakeClock, state
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client


def entries(server: RunningServer, tenant: str = "default") -> list[Entry]:
    found = server.app.lifecycle.since(tenant, 0)
    assert found is not None
    return found


def test_numbers_have_no_hole_and_each_tenant_has_its_own() -> None:
    lifecycle = Lifecycle("e", FakeClock())
    for n in range(100):
        lifecycle.record("run.updated", state(tenant="a"))
        if n % 3 == 0:
            lifecycle.record("run.updated", state(tenant="b"))
    for tenant, count in (("a", 100), ("b", 34)):
        found = lifecycle.since(tenant, 0)
        assert found is not None and [entry.rev for entry in found] == list(range(1, count + 1))
        assert {entry.row["tenant"] for entry in found} == {tenant}
    assert lifecycle.since("nobody", 0) == []


def test_of_a_tenant_that_is_long_idle_one_entry_stays_and_its_numbers_go_on() -> None:
    clock = FakeClock()
    lifecycle = Lifecycle("e", clock)
    for tenant in ("idle", "busy"):
        for _ in range(50):
            lifecycle.record("run.updated", state(tenant=tenant))
    clock.at += KEEP_IDLE_S + 1
    lifecycle.record("run.updated", state(tenant="busy"))
    lifecycle.prune()
    assert [len(lifecycle.kept(tenant)) for tenant in ("idle", "busy")] == [1, 51]
    assert lifecycle.since("idle", 0) is None and lifecycle.since("idle", 50) == []
    assert lifecycle.record("run.updated", state(tenant="idle")).rev == 51


def test_the_ring_is_bounded_and_says_when_it_no_longer_reaches_back() -> None:
    lifecycle = Lifecycle("e", FakeClock())
    for _ in range(RING_ENTRIES + 5):
        lifecycle.record("run.updated", state())
    assert len(lifecycle._rings["default"].entries) == RING_ENTRIES
    assert lifecycle.since("default", 0) is None and lifecycle.since("default", 4) is None
    kept = lifecycle.since("default", 5)
    assert kept is not None and [entry.rev for entry in kept] == list(range(6, RING_ENTRIES + 6))
    assert lifecycle.since("default", RING_ENTRIES + 5) == []


def test_observers_hear_every_entry_in_order_and_rows_do_not_change_afterwards() -> None:
    lifecycle, heard = Lifecycle("e", FakeClock()), []
    lifecycle.observe(lambda tenant, entry: heard.append((tenant, entry)))
    one = state()
    first = lifecycle.record("run.created", one)
    one.to("running", 1001.0)
    second = lifecycle.record("run.started", one, {"x": 1})
    assert heard == [("default", first), ("default", second)]
    assert (first.row["state"], second.row["state"], second.data) == ("queued", "running", {"x": 1})


def test_the_entries_of_each_run_are_counted_for_themselves() -> None:
    lifecycle, one, other = Lifecycle("e", FakeClock()), state("resp_1"), state("resp_2", tenant="b")
    counted = [lifecycle.record("run.updated", run) for run in (one, other, one, one, other)]
    assert [(entry.run_id, entry.n, entry.fence) for entry in counted] == [
        ("resp_1", 1, 1),
        ("resp_2", 1, 1),
        ("resp_1", 2, 1),
        ("resp_1", 3, 1),
        ("resp_2", 2, 1),
    ]
    assert "feed_n" not in counted[0].row and "feed_fence" not in counted[0].row


@pytest.mark.parametrize(
    ("told", "ended", "said"),
    [
        (Told(0, ""), False, "run.created"),
        (Told(3, "run.step.started"), False, "run.updated"),
        (Told(3, "run.usage"), True, "run.cancelled"),
        (Told(0, ""), True, "run.cancelled"),
        (Told(4, "run.cancelled"), True, None),
    ],
)
def test_who_takes_over_a_run_says_what_the_feed_lacks(told: Told, ended: bool, said: str | None) -> None:
    lifecycle, run = Lifecycle("e", FakeClock()), state()
    if ended:
        run.terminal = {"status": "cancelled", "code": "cancelled", "by": "user:anna"}
        run.to("cancelled", 1001.0)
    lifecycle.take_over(run, told, fence=3)
    found = lifecycle.since("default", 0)
    assert found is not None
    assert [(entry.event, entry.n, entry.fence) for entry in found] == ([(said, told.n + 1, 3)] if said else [])
    if ended and said:
        assert found[0].data == {"usage": None, "cost": None, "code": "cancelled", "by": "user:anna"}
    assert lifecycle.record("run.updated", run).n == told.n + len(found) + 1


def test_every_event_that_is_recorded_stands_in_the_table_of_the_protocol() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(antiphon.__file__).parent.rglob("*.py")]
    recorded = re.compile(r'(?:event=|record\(|_tell\(run, )"(run\.[a-z._]+)"')
    named = {name for text in texts for name in recorded.findall(text)}
    assert named | ENDS == LIFECYCLE_EVENTS.keys()


async def test_the_events_of_a_run_come_in_their_order_with_its_whole_state() -> None:
    async with running_server() as server:
        response = await create(server, "one two")
        found = entries(server)
    assert [entry.event for entry in found] == [
        "run.created",
        "run.started",
        "run.step.started",
        "run.usage",
        "run.completed",
    ]
    assert [entry.rev for entry in found] == [1, 2, 3, 4, 5]
    for entry in found:
        WireState.model_validate(entry.row)
        assert entry.row["response_id"] == response["id"]
    assert [entry.row["state"] for entry in found] == ["queued", "running", "running", "running", "completed"]
    assert (
        found[3].data["total"] == response["usage"]["total_tokens"] and found[3].row["usage"] == response["usage"]
    )
    assert found[4].row["terminal"] == {"status": "completed", "code": None, "by": None}
    assert found[4].row["head"] > found[1].row["head"]
    revisions = [entry.row["revision"] for entry in found]
    assert revisions == sorted(revisions)
    assert found[2].row["revision"] == found[1].row["revision"], "a step alone changes no state worth telling"
    assert found[3].row["revision"] == found[2].row["revision"], "usage alone does not raise the revision"


async def test_every_kind_of_end_is_told_once_with_its_code_and_who_did_it() -> None:
    async with running_server() as server, http(server) as client:
        failed = await ended(server, await begin(server, model="antiphon/script:fail"))
        cancelled = await begin(server, model=slow(server))
        await client.post(f"/v1/responses/{cancelled}/cancel")
        text = "[[turns]]\n[[turns.steps]]\ntext='x'\n[[turns.steps]]\nincomplete='max_output_tokens'"
        incomplete = await create(server, model=script(server, "cut", text))
        calling = await create(server, model=script(server, "call", "[[turns]]\n[[turns.steps]]\ncall={name='f'}"))
        ends = {e.row["response_id"]: e for e in entries(server) if e.row["terminal"] is not None}
        last = [
            e
            for e in entries(server)
            if e.event in ("run.failed", "run.cancelled", "run.incomplete", "run.completed")
        ]
    assert len(last) == len(ends) == 4
    assert ends[failed["id"]].row["terminal"] == {"status": "failed", "code": "server_error", "by": None}
    assert ends[cancelled].row["terminal"] == {"status": "cancelled", "code": "cancelled", "by": "user:local"}
    assert ends[incomplete["id"]].row["terminal"] == {
        "status": "incomplete",
        "code": "max_output_tokens",
        "by": None,
    }
    assert ends[calling["id"]].row["open_calls"] == [calling["output"][0]["call_id"]]


async def test_warm_ups_and_refused_creates_are_in_no_feed() -> None:
    async with running_server() as server, http(server) as client:
        await create(server, generate=False)
        await create(server, generate=False, store=False)
        await client.post("/v1/responses", json=body(model="nobody"))
        assert entries(server) == [] and len(server.app.registry) == 0


async def test_a_stored_state_equals_the_one_that_was_pushed_last() -> None:
    async with running_server(journal={"retention_s": 500}) as server, ws_client(server.ws_url) as socket:
        await socket.hello()
        await socket.create(input="x", antiphon={"labels": {"app": "shop"}, "visibility": "private"})
        events = await socket.collect_run()
        response_id = events[-1]["response"]["id"]
        last = entries(server)[-1].row
        for _ in range(200):
            if response_id not in server.app.engine.supervisor._directory._runs:
                break
            await asyncio.sleep(0.005)
        attached = await socket.attach(response_id)
        await socket.collect_attachment(attached["stream_id"])
    volatile = {"updated_at"}
    assert {k: v for k, v in attached["state"].items() if k not in volatile} == {
        k: v for k, v in last.items() if k not in volatile
    }
    assert last["expires_at"] is not None and 499 < last["expires_at"] - last["updated_at"] + 1 < 502


async def test_no_row_and_no_data_holds_what_was_said() -> None:
    call = "call={name='f',arguments='{\"a\":\"SECRET\"}'}"
    text = f"[[turns]]\n[[turns.steps]]\ntext='SECRET'\n[[turns.steps]]\n{call}"
    async with running_server() as server, http(server, **{"x-upstream-authorization": "SECRET"}) as client:
        model = script(server, "call", text)
        fields: Any = {
            "instructions": "SECRET",
            "metadata": {"k": "SECRET"},
            "tools": [{"type": "function", "name": "f"}],
        }
        parent = await create(server, "SECRET", model=model, **fields)
        output = [{"type": "function_call_output", "call_id": parent["output"][-1]["call_id"], "output": "SECRET"}]
        await create(server, output, model=model, previous_response_id=parent["id"], **fields)
        await client.post("/v1/responses", json=body("SECRET"))
        await ended(server, await begin(server, "SECRET", model="antiphon/script:fail", **fields))
        told = json.dumps([[e.event, e.row, e.data] for e in entries(server)])
    assert "SECRET" not in told and len(told) > 1000


async def test_tenants_do_not_see_each_others_entries() -> None:
    keys = [key_of("a", tenant="a"), key_of("b", tenant="b")]
    tenants = [{"id": "a"}, {"id": "b"}]
    async with running_server(auth="required", key=keys, tenant=tenants) as server:
        await create(server, key="a")
        await create(server, key="b")
        await create(server, key="a")
        for tenant, runs in (("a", 2), ("b", 1)):
            found = entries(server, tenant)
            assert {entry.row["tenant"] for entry in found} == {tenant}
            assert [entry.rev for entry in found] == list(range(1, len(found) + 1))
            assert len({entry.row["response_id"] for entry in found}) == runs
