"""The rows of a run's model calls add up to its total, however the run ends (acceptance H)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.store.usage import CallRow
from tests.contract.playing import MODEL, USAGE, Stage, call, keyed, response, says, stage, without_usage
from tests.session import taking_up
from tests.session.play import connected, response_id, started, until
from tests.session.speaking import AFTER, BEFORE, WHOLE, Speaker
from tests.support.compacting import LONG, compacting
from tests.support.stub_upstream import StubConn, StubRequest, answering, events_of_text, play, text
from tests.support.ws_client import Event

DO = says(call("do", key="weather-in-oslo"))
OTHER = says(call("do", key="the-tide-in-bergen"))
DONE = says(("text", "All is done."))


async def rows_of(it: Stage, run_id: str) -> list[CallRow]:
    accounts = it.server.app.engine.accounts
    await accounts.flush()
    return sorted(await accounts.usage.calls_of(run_id), key=lambda row: row.at)


async def balanced(it: Stage, events: Sequence[Event]) -> list[CallRow]:
    """The rows of a run that ended, after it was checked that everything which shows a total shows their sum."""
    run_id = response(events)["id"]
    rows = await rows_of(it, run_id)
    mine = [entry for entry in it.server.app.lifecycle.since("default", 0) or [] if entry.run_id == run_id]
    told = [entry.data for entry in mine if entry.event == "run.usage"]
    assert [(str(data["step"]), data["total"], data["estimated"]) for data in told] == [
        (row.step, row.total_tokens, row.estimated) for row in rows
    ]
    state = it.server.app.registry.get(run_id)
    assert mine[-1].data["usage"] == mine[-1].row["usage"] == state.usage
    assert mine[-1].data["cost"] == mine[-1].row["cost"] == state.cost
    assert mine[-1].row.get("usage_estimated", False) == any(row.estimated for row in rows)
    if not rows:
        assert state.usage is None
        return rows
    assert state.usage is not None
    assert state.usage["total_tokens"] == sum(row.total_tokens for row in rows)
    assert state.usage["input_tokens"] == sum(row.input_tokens for row in rows)
    assert state.usage["output_tokens"] == sum(row.output_tokens for row in rows)
    return rows


def steps(rows: Sequence[CallRow]) -> list[tuple[str, bool]]:
    return [(row.step, row.estimated) for row in rows]


async def test_a_run_of_three_rounds_is_charged_each_of_them() -> None:
    async with stage(DO, OTHER, DONE, has=[keyed("do")]) as it:
        events = await it.run()
        rows = await balanced(it, events)
        assert steps(rows) == [("1", False), ("2", False), ("3", False)]
        assert response(events)["usage"]["total_tokens"] == 3 * sum(USAGE.values())
        assert {(row.tenant, row.principal, row.model, row.upstream) for row in rows} == {
            ("default", "user:local", MODEL, "stub")
        }


async def test_a_run_that_ends_on_its_last_round_is_charged_all_of_them() -> None:
    async with stage(DO, OTHER, DO, has=[keyed("do")], loop={"max_rounds": 3}) as it:
        events = await it.run()
        assert response(events)["incomplete_details"] == {"reason": "max_tool_rounds"}
        assert len(await balanced(it, events)) == 3


async def test_a_run_that_is_halted_in_a_loop_is_charged_the_turn_that_was_one_too_many() -> None:
    async with stage(DO, has=[keyed("do")]) as it:
        events = await it.run()
        assert response(events)["incomplete_details"] == {"reason": "loop_detected"}
        assert len(await balanced(it, events)) == 7


async def test_an_upstream_that_breaks_off_is_charged_an_estimate_of_what_it_gave() -> None:
    async def breaks(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in events_of_text(["twelve bytes", " and more of it"])[:6]:
            conn.sse(event)
        await conn.flushed()
        conn.fin()

    async with stage(DO, breaks, has=[keyed("do")]) as it:
        events = await it.run()
        assert events[-1]["type"] == "response.failed"
        rows = await balanced(it, events)
        assert steps(rows) == [("1", False), ("2", True)]
        assert rows[1].output_tokens >= 3 and rows[1].input_tokens > 0


async def test_an_upstream_that_fails_with_a_count_is_charged_what_it_counted() -> None:
    failing = says(("text", "half an answer"))[:-1]
    end = {"status": "failed", "error": {"code": "server_error", "message": "x"}, "usage": USAGE}
    async with stage(play([*failing, _event("response.failed", end)])) as it:
        events = await it.run()
        assert events[-1]["type"] == "response.failed"
        rows = await balanced(it, events)
        assert steps(rows) == [("1", False)]
        assert rows[0].total_tokens == sum(USAGE.values())


async def test_a_call_that_gave_nothing_is_not_charged() -> None:
    async with stage(answering(400, {"error": {"message": "no"}})) as it:
        events = await it.run()
        assert events[-1]["type"] == "response.failed"
        assert await balanced(it, events) == []


async def test_a_run_that_is_cancelled_in_mid_stream_is_charged_an_estimate_of_what_was_streamed() -> None:
    async with stage(text(600, rate=50)) as it:
        await it.client.create(MODEL, input="go")
        seen = await it.client.recv_until(lambda event: event.get("delta") == "w3 ")
        await it.client.send({"type": "response.cancel", "response_id": response_id(seen)})
        events = await it.client.collect_run()
        assert response(events)["status"] == "cancelled"
        rows = await balanced(it, events)
        assert steps(rows) == [("1", True)]
        assert rows[0].output_tokens >= 3


@pytest.mark.parametrize(("stop", "charged"), [(BEFORE, []), (AFTER, [("1", True)])])
async def test_a_run_that_is_cut_by_a_steer_is_charged_what_it_gave(stop: str, charged: list[Any]) -> None:
    speaker = Speaker(stop, WHOLE)
    async with stage(speaker) as it:
        await it.client.create(MODEL, input="first", stream_id="a")
        if stop == BEFORE:
            target = await started(it.client, "a")
        else:
            wanted = "response.output_item.done"
            target = response_id(await it.client.recv_until(lambda e: e["type"] == wanted, stream_id="a"))
        await until(lambda: bool(speaker.inputs), "the model call")
        await it.client.send({"type": "response.steer", "previous_response_id": target, "input": "second"})
        await it.client.recv_until(lambda e: e["type"] == "response.steer.accepted", stream_id="a")
        speaker.release()
        events = await it.client.recv_until(lambda e: e["type"] == "response.incomplete", stream_id="a")
        await it.client.recv_until(lambda e: e["type"] == "response.completed", stream_id="a")
        assert steps(await balanced(it, events)) == charged


async def test_an_upstream_that_does_not_count_is_charged_an_estimate_that_no_response_shows() -> None:
    async with stage(without_usage(DO), without_usage(DONE), has=[keyed("do")]) as it:
        events = await it.run(instructions="Be brief. " * 40)
        rows = await balanced(it, events)
        assert steps(rows) == [("1", True), ("2", True)]
        assert rows[0].input_tokens > 100 and rows[1].output_tokens >= len("All is done.") // 4
        assert response(events)["usage"] is None


async def test_of_rounds_of_which_one_is_counted_the_response_shows_that_one_and_the_state_all() -> None:
    async with stage(without_usage(DO), DONE, has=[keyed("do")]) as it:
        events = await it.run()
        rows = await balanced(it, events)
        assert response(events)["usage"]["total_tokens"] == rows[1].total_tokens == sum(USAGE.values())


async def test_a_compaction_is_charged_as_a_step_of_its_own() -> None:
    automatic = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
    async with stage(compacting("what was done", play(events_of_text([LONG])), text(1))) as it:
        parent = response(await it.run())["id"]
        events = await it.run(previous_response_id=parent, **automatic)
        assert steps(await balanced(it, events)) == [("compaction:1", False), ("1", False)]


async def test_a_compaction_that_fails_is_charged_what_it_counted() -> None:
    cut = says(("text", "half a summ"), incomplete="max_output_tokens")
    async with stage(compacting(play(cut), text(1))) as it:
        parent = response(await it.run())["id"]
        trigger = [{"type": "compaction_trigger"}]
        events = await it.run(trigger, previous_response_id=parent)
        assert events[-1]["type"] == "response.failed"
        assert steps(await balanced(it, events)) == [("compaction:1", False)]


async def test_a_warm_up_costs_nothing() -> None:
    async with stage(DONE) as it:
        events = await it.run(generate=False)
        assert await rows_of(it, response(events)["id"]) == []
        assert it.stub.requests == []


async def test_the_model_that_answers_in_anothers_place_is_the_one_that_is_charged() -> None:
    async with stage(
        answering(503, {}),
        answering(503, {}),
        answering(503, {}),
        DONE,
        upstream={"models": (MODEL, "other-model")},
        fallbacks={MODEL: ("other-model",)},
    ) as it:
        events = await it.run()
        rows = await balanced(it, events)
        assert [(row.model, row.upstream) for row in rows] == [("other-model", "stub")]


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {"type": kind, "response": {"id": "resp_up", "object": "response", "output": [], **fields}}
    )


async def test_a_run_whose_process_was_killed_shows_what_its_rows_say(tmp_path: Path) -> None:
    note = call("note", "c", file=str(tmp_path / "notes"), hang=True)
    async with taking_up.stage(tmp_path, says(("text", "t"), note), DONE) as s:
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client)])
            await until(lambda: s.calls == 1, "the tool of the first round")
            await until(lambda: _rows(s.server.data_dir, run_id) == [("1", 8)], "the row of the first round")
            await s.restart()
            await client.wait_closed()
        events = await taking_up.whole(s, run_id)
        assert response(events)["error"]["code"] == "server_lost"
        async with connected(s.server.ws_url) as viewer:
            await viewer.hello()
            attached = await viewer.attach(run_id)
        assert (attached["state"]["state"], attached["state"]["usage"]["total_tokens"]) == ("failed", 8)
        assert _rows(s.server.data_dir, run_id) == [("1", 8)]


def _rows(data_dir: Path, run_id: str) -> list[tuple[str, int]]:
    with contextlib.closing(sqlite3.connect(data_dir / "antiphon.db")) as connection:
        query = "SELECT step, total_tokens FROM model_calls WHERE run_id = ?"
        return connection.execute(query, (run_id,)).fetchall()
