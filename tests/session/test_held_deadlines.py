"""Deadlines of held calls, and runs that wait while nobody is there (PROTOCOL 7.4.7, 7.4.9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.session.held import (
    calling,
    hold,
    injected,
    next_call,
    output,
    outputs,
    refused,
    send_inject,
    state_of,
    taken,
    waits,
)
from tests.session.play import checked, connected, numbered, reference, until, words, write_script
from tests.support.server import running_server
from tests.support.ws_client import ws_client


def lifecycle(server: Any, run_id: str, event: str) -> list[dict[str, Any]]:
    entries = server.app.lifecycle.since("default", 0) or []
    return [e.data for e in entries if e.event == event and e.row["response_id"] == run_id]


async def test_a_deadline_gives_the_model_an_error_output_and_the_run_goes_on() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 2), calls=2, antiphon={"deadline_s": 0.4})
        shown = [call["deadline"] for call in state_of(server, run.id)["pending_calls"]]
        assert all(deadline - state_of(server, run.id)["created_at"] < 1 for deadline in shown)
        await taken(owner, run.id, output(run.call_ids[1], "in time"))
        rest = await owner.collect_run()
        (late_id, late), (_, good) = outputs(rest)
        assert (late_id, good) == (run.call_ids[0], "in time")
        assert "0.4 seconds" in late
        assert rest[-1]["response"]["status"] == "completed"
        error = await refused(owner, run.id, output(run.call_ids[0]))
        assert (error["code"], error["winner"]["by"]) == ("already_resolved", "system:deadline")
        by = {data["call_id"]: (data["by"], data["ok"]) for data in lifecycle(server, run.id, "run.tool.resolved")}
        assert by == {
            run.call_ids[0]: ("system:deadline", False),
            run.call_ids[1]: ("user:local", True),
        }


async def test_with_cancel_a_deadline_ends_the_run_as_incomplete() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        options = {"deadline_s": 0.2, "on_expiry": "cancel"}
        run = await hold(owner, calling(server.data_dir, 1), antiphon=options)
        end = (await owner.collect_run())[-1]
        assert end["type"] == "response.incomplete"
        assert end["response"]["status"] == "incomplete"
        assert end["response"]["incomplete_details"] == {"reason": "tool_deadline"}
        assert state_of(server, run.id)["terminal"]["code"] == "tool_deadline"
        assert (await refused(owner, run.id, output(run.call_ids[0])))["code"] == "response_already_completed"


async def test_with_wait_a_deadline_is_shown_and_passes() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        options = {"deadline_s": 0.05, "on_expiry": "wait"}
        run = await hold(owner, calling(server.data_dir, 1), antiphon=options)
        deadline = (await waits(server, run))["pending_calls"][0]["deadline"]
        await until(lambda: server.app.engine.clock.now() > deadline + 0.2, "the deadline passing")
        assert state_of(server, run.id)["state"] == "waiting_for_tool"
        await taken(owner, run.id, output(run.call_ids[0]))
        assert (await owner.collect_run())[-1]["response"]["status"] == "completed"


async def test_a_deadline_passes_while_the_model_still_talks() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        look: dict[str, Any] = {"call": {"name": "look"}}
        model = write_script(server.data_dir, "talks_on", [look, words(60, rate=100)], [{"text": "done"}])
        run = await hold(owner, model, antiphon={"deadline_s": 0.1})
        rest = await owner.collect_run()
        assert outputs(rest)[0][0] == run.call_ids[0]
        assert rest[-1]["response"]["status"] == "completed"


async def test_deadlines_and_answers_at_once_give_each_call_one_answer() -> None:
    async with running_server() as server, ws_client(server.ws_url) as owner, ws_client(server.ws_url) as other:
        model = calling(server.data_dir, 1)
        seen = {"client": 0, "deadline": 0}
        for n in range(30):
            run = await hold(owner, model, antiphon={"deadline_s": 0.03})
            deadline = state_of(server, run.id)["created_at"] + 0.03
            early_s = (n % 10) / 1000
            await asyncio.sleep(max(deadline - early_s - server.app.engine.clock.now(), 0))
            await send_inject(other, run.id, [output(run.call_ids[0], "mine")])
            answer, rest = await injected(other), await owner.collect_run()
            checked(numbered([*run.events, *rest]))
            (_, text) = outputs(rest)[0]
            won = answer["type"] == "response.inject.created"
            assert won == (text == "mine")
            assert won or answer["error"]["winner"]["by"] == "system:deadline"
            seen["client" if won else "deadline"] += 1
        assert sum(seen.values()) == 30


async def test_a_run_waits_when_everybody_has_left_and_is_there_when_somebody_returns() -> None:
    async with running_server() as server:
        async with ws_client(server.ws_url) as owner:
            run = await hold(owner, calling(server.data_dir, 1))
            await waits(server, run)
            await owner.abort()
        await until(lambda: not state_of(server, run.id)["participants"], "everybody having left")
        assert state_of(server, run.id)["state"] == "waiting_for_tool"
        async with connected(server.ws_url) as back:
            await back.hello()
            attached = await back.attach(run.id, after=run.events[-1]["sequence_number"])
            assert attached["mode"] == "live"
            assert [call["call_id"] for call in attached["state"]["pending_calls"]] == run.call_ids
            await back.send({"type": "response.inject", "response_id": run.id, "input": [output(run.call_ids[0])]})
            await back.collect_attachment(attached["stream_id"])
            whole = checked(await reference(server.ws_url, run.id))
            assert whole.text == "done"


async def test_a_run_that_is_not_stored_waits_for_the_grace_after_the_last_left() -> None:
    async with running_server(store={"grace_s": 0.3}) as server:
        model = calling(server.data_dir, 1, 1)
        async with (
            ws_client(server.ws_url) as owner,
            connected(server.ws_url) as other,
            connected(server.ws_url) as helper,
        ):
            run = await hold(owner, model, store=False)
            await waits(server, run)
            await other.hello()
            lane = (await other.attach(run.id, after="now"))["stream_id"]
            await owner.abort()
            await taken(helper, run.id, output(run.call_ids[0]))
            again = await taken(helper, run.id, output(run.call_ids[0]))
            assert again["duplicate"] is True
            run.call_ids = [await next_call(other, lane)]
            await waits(server, run)
        await until(lambda: state_of(server, run.id)["state"] == "cancelled", "the grace passing")
        assert state_of(server, run.id)["terminal"]["by"] == "system:abandoned"


@pytest.mark.parametrize("stored", [True, False])
async def test_somebody_who_comes_in_time_keeps_a_waiting_run(stored: bool) -> None:
    async with running_server(store={"grace_s": 0.4}) as server:
        async with ws_client(server.ws_url) as owner:
            run = await hold(owner, calling(server.data_dir, 1), store=stored)
            await waits(server, run)
            await owner.abort()
        async with connected(server.ws_url) as back:
            await back.hello()
            lane = (await back.attach(run.id))["stream_id"]
            await until(lambda: server.app.engine.clock.now() > state_of(server, run.id)["created_at"] + 1, "time")
            assert state_of(server, run.id)["state"] == "waiting_for_tool"
            await taken(back, run.id, output(run.call_ids[0]), stream_id=lane)
            events = numbered(await back.collect_attachment(lane))
            assert events[-1]["response"]["status"] == "completed"


async def test_the_calls_of_a_run_are_told_to_the_lifecycle_log() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 2), calls=2)
        await waits(server, run)
        await taken(owner, run.id, *(output(call_id) for call_id in run.call_ids))
        await owner.collect_run()
        called = lifecycle(server, run.id, "run.tool.called")
        assert [data["call_id"] for data in called] == run.call_ids
        assert all((data["name"], data["owner"]) == ("look", "client") for data in called)
        assert len(lifecycle(server, run.id, "run.tool.waiting")) == 1
        resolved = lifecycle(server, run.id, "run.tool.resolved")
        assert [data["call_id"] for data in resolved] == run.call_ids
        assert all(data["duration_ms"] >= 0 for data in resolved)


async def test_a_call_of_an_unknown_tool_is_not_waited_for() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        model = calling(server.data_dir, 1)
        await owner.create(model, tools=[], antiphon={"client_tools": "hold"})
        events = await owner.collect_run()
        assert events[-1]["response"]["status"] == "completed"
        assert "no tool" in outputs(events)[0][1]
