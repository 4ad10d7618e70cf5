"""Held calls answered over sockets: by whom, how often, in which order, and what losers hear (PROTOCOL 7.4)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.http.calling import UNKNOWN_ID
from tests.session.held import (
    Waiting,
    calling,
    hold,
    inject,
    injected,
    output,
    outputs,
    refused,
    send_inject,
    state_of,
    taken,
    tenants,
    waits,
)
from tests.session.play import checked, connected, numbered, reference, until, words, write_script
from tests.store.database import execute
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import WsClient, ws_client


async def test_a_plain_client_without_hello_answers_and_the_same_response_goes_on() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        run = await hold(owner, calling(server.data_dir, 1))
        state = await waits(server, run)
        assert [call["call_id"] for call in state["pending_calls"]] == run.call_ids
        answer = await taken(other, run.id, output(run.call_ids[0]))
        assert answer["sequence_number"] == run.events[-1]["sequence_number"]
        assert "stream_id" not in answer and "duplicate" not in answer
        rest = await owner.collect_run()
        whole = checked(numbered([*run.events, *rest]))
        assert (whole.text, rest[-1]["type"]) == ("done", "response.completed")
        assert outputs(rest) == [(run.call_ids[0], "seen")]
        kinds = [item["type"] for item in rest[-1]["response"]["output"]]
        assert kinds == ["function_call", "function_call_output", "message"]
        assert rest[-1]["response"]["output"][1]["id"].startswith("fco_")
        assert not any(event["type"].startswith("antiphon:") for event in other.received)


async def test_a_call_is_pending_no_later_than_its_event() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        await owner.hello()
        run = await hold(owner, calling(server.data_dir, 2), calls=2)
        for call_id in run.call_ids:
            done = next(n for n, e in enumerate(run.events) if e.get("item", {}).get("call_id") == call_id and
                        e["type"].endswith("done"))  # fmt: skip
            pushed = [e for e in run.events[:done] if e["type"] == "antiphon:run"][-1]
            assert call_id in [call["call_id"] for call in pushed["state"]["pending_calls"]]


async def test_all_calls_of_a_set_are_answered_before_the_model_goes_on_and_are_logged_in_their_order() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 3), calls=3)
        for call_id in reversed(run.call_ids[1:]):
            await taken(owner, run.id, output(call_id, f"of {call_id}"))
        state = await waits(server, run)
        assert [call["call_id"] for call in state["pending_calls"]] == run.call_ids[:1]
        assert [call["call_id"] for call in state["resolved_calls"]] == run.call_ids[:0:-1]
        await taken(owner, run.id, output(run.call_ids[0], f"of {run.call_ids[0]}"))
        rest = await owner.collect_run()
        assert outputs(rest) == [(call_id, f"of {call_id}") for call_id in run.call_ids]


async def test_a_list_is_taken_whole_or_not_at_all() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        run = await hold(owner, calling(server.data_dir, 2), calls=2)
        error = await refused(other, run.id, output(run.call_ids[0]), output("call_nobody_made"))
        assert error["code"] == "unknown_call"
        assert len((await waits(server, run))["pending_calls"]) == 2
        await taken(other, run.id, *(output(call_id) for call_id in run.call_ids))
        assert len(outputs(await owner.collect_run())) == 2


async def test_answers_may_come_while_the_model_still_talks() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        look: dict[str, Any] = {"call": {"name": "look"}}
        model = write_script(server.data_dir, "talks_on", [look, words(40, rate=100)], [{"text": "done"}])
        run = await hold(owner, model)
        answer = await taken(owner, run.id, output(run.call_ids[0]))
        rest = await owner.collect_run()
        spoken = [e["sequence_number"] for e in rest if e.get("delta", "").startswith("w")]
        assert answer["sequence_number"] < spoken[-1], "it was taken in mid-answer"
        logged = next(
            e["sequence_number"] for e in rest if e.get("item", {}).get("type") == "function_call_output"
        )
        assert logged > spoken[-1], "and is logged when the set is complete"


async def test_several_rounds_wait_one_after_the_other_in_one_response() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        await owner.hello()
        run = await hold(owner, calling(server.data_dir, 1, 2))
        await taken(owner, run.id, output(run.call_ids[0]))
        frames = await owner.recv_until(
            lambda e: e["type"] == "antiphon:run" and len(e["state"]["pending_calls"]) == 2
        )
        second = [call["call_id"] for call in frames[-1]["state"]["pending_calls"]]
        error = await refused(owner, run.id, output("call_x"))
        assert error["code"] == "unknown_call"
        again = await taken(owner, run.id, output(run.call_ids[0]))
        assert again["duplicate"] is True, "answers of earlier rounds are remembered"
        await taken(owner, run.id, *(output(call_id) for call_id in second))
        rest = await owner.collect_run()
        states = [e["state"]["state"] for e in owner.received if e["type"] == "antiphon:run"]
        changes = [state for n, state in enumerate(states) if n == 0 or states[n - 1] != state]
        assert changes[1:-1] == ["running", "waiting_for_tool", "running", "waiting_for_tool", "running"]
        assert rest[-1]["response"]["status"] == "completed"


async def test_two_clients_answer_at_once_a_thousand_times_and_one_wins_each_time() -> None:
    runs, each = 10, 100
    wins: dict[str, int] = {"a": 0, "b": 0}
    async with (
        running_server() as server,
        ws_client(server.ws_url) as owner,
        ws_client(server.ws_url) as a,
        ws_client(server.ws_url) as b,
    ):
        model = calling(server.data_dir, each)
        clients = {"a": a, "b": b}
        for name, client in clients.items():
            await client.hello(client={"name": name, "instance_id": name})
        for _ in range(runs):
            run = await hold(owner, model, calls=each)
            results = await asyncio.gather(*(race(name, client, run) for name, client in clients.items()))
            winners: dict[str, str] = {}
            for name, answers in zip(clients, results, strict=True):
                for call_id, answer in answers.items():
                    if answer["type"] == "response.inject.created":
                        assert call_id not in winners, "a call was answered twice"
                        winners[call_id] = name
                        wins[name] += 1
            for name, answers in zip(clients, results, strict=True):
                for call_id, answer in answers.items():
                    if winners[call_id] == name:
                        continue
                    assert answer["error"]["code"] == "already_resolved"
                    assert answer["error"]["winner"]["instance"] == winners[call_id]
                    assert answer["error"]["winner"]["call_id"] == call_id
                    assert answer["input"] == [output(call_id, name)]
            assert winners.keys() == set(run.call_ids)
            logged = outputs(await owner.collect_run(wait_s=30))
            assert logged == [(call_id, winners[call_id]) for call_id in run.call_ids], "the winner's words count"
    assert wins["a"] + wins["b"] == runs * each


async def race(name: str, client: WsClient, run: Waiting) -> dict[str, dict[str, Any]]:
    """Answer every call in an order of one's own; what was said to each."""
    order = random.Random(name + run.id).sample(run.call_ids, len(run.call_ids))
    for call_id in order:
        await send_inject(client, run.id, [output(call_id, name)])
    return {call_id: await injected(client) for call_id in order}


async def test_a_repeat_is_told_duplicate_and_a_loser_who_won_also_after_the_end() -> None:
    async with tenants() as server:
        async with (
            connected(server.ws_url, api_key="anna") as anna,
            connected(server.ws_url, api_key="bob") as bob,
        ):
            run = await hold(anna, calling(server.data_dir, 1))
            one = output(run.call_ids[0], "first", result_id="r-1")
            await taken(bob, run.id, one)
            await anna.collect_run()
            await until(lambda: run.id not in live_ids(server), "leaving the memory of the server")
            assert (await taken(bob, run.id, one))["duplicate"] is True
            error = await refused(anna, run.id, output(run.call_ids[0], "second"))
            assert (error["code"], error["winner"]["by"]) == ("already_resolved", "key:bob")
            assert (await refused(anna, run.id, output("call_x")))["code"] == "response_already_completed"
        async with connected(server.ws_url, api_key="bob") as again:
            assert (await taken(again, run.id, one))["duplicate"] is True, "a result id is known from anywhere"
            error = await refused(again, run.id, output(run.call_ids[0]))
            assert error["code"] == "already_resolved", "without it, another connection is another sender"


def live_ids(server: RunningServer) -> set[str]:
    return {run.id for run in server.app.engine.directory.live_runs()}


async def test_the_answer_to_an_inject_after_the_end_has_the_last_number_of_the_log() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        run = await hold(owner, calling(server.data_dir, 1))
        await taken(owner, run.id, output(run.call_ids[0]))
        end = (await owner.collect_run())[-1]
        await reference(server.ws_url, run.id)
        late = await inject(other, run.id, output("call_x"))
        assert late["sequence_number"] == end["sequence_number"]


async def test_unknown_foreign_and_invisible_runs_are_answered_alike() -> None:
    async with (
        tenants() as server,
        connected(server.ws_url, api_key="anna") as anna,
        connected(server.ws_url, api_key="foreign") as foreign,
        connected(server.ws_url, api_key="bob") as bob,
    ):
        run = await hold(anna, calling(server.data_dir, 1), antiphon={"visibility": "private"})
        told = []
        for client, run_id in ((foreign, run.id), (bob, run.id), (bob, UNKNOWN_ID)):
            answer = await inject(client, run_id, output(run.call_ids[0]))
            assert answer["sequence_number"] == 0
            assert answer["input"] == [output(run.call_ids[0])]
            told.append({**answer["error"], "message": answer["error"]["message"].replace(run_id, "ID")})
        assert told[0] == told[1] == told[2]
        assert told[0]["code"] == "response_not_found"
        await taken(anna, run.id, output(run.call_ids[0]))
        await anna.collect_run()


async def test_a_viewer_sees_the_call_and_may_not_answer_it() -> None:
    async with (
        tenants() as server,
        connected(server.ws_url, api_key="anna") as anna,
        connected(server.ws_url, api_key="viewer") as viewer,
    ):
        run = await hold(anna, calling(server.data_dir, 1))
        await viewer.hello()
        lane = (await viewer.attach(run.id))["stream_id"]
        error = await refused(viewer, run.id, output(run.call_ids[0]), stream_id=lane)
        assert error["code"] == "forbidden"
        claimed = await viewer.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[0])
        assert claimed["code"] == "forbidden"
        await taken(anna, run.id, output(run.call_ids[0]))
        await anna.collect_run()


async def test_the_answer_comes_on_the_lane_the_run_has_on_that_connection() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        run = await hold(owner, calling(server.data_dir, 3), calls=3, stream_id="mine")
        await other.hello()
        lane = (await other.attach(run.id, stream_id="theirs"))["stream_id"]
        assert (await taken(owner, run.id, output(run.call_ids[0]), stream_id="mine"))["stream_id"] == "mine"
        assert (await taken(other, run.id, output(run.call_ids[1]), stream_id=lane))["stream_id"] == "theirs"
        assert "stream_id" not in await inject(other, UNKNOWN_ID, output("x"))
        await taken(owner, run.id, output(run.call_ids[2]), stream_id="mine")
        await owner.collect_run("mine")


@pytest.mark.parametrize(
    "item",
    [
        "text",
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "function_call_output", "output": "no call"},
        {"type": "custom_tool_call_output", "call_id": "CALL", "output": "of another kind"},
        {"type": "function_call_output", "call_id": "CALL", "output": 7},
        {"type": "function_call_output", "call_id": "CALL", "output": "x", "antiphon": {"fance": 1}},
    ],
)
async def test_a_malformed_answer_is_handed_back_and_the_call_still_waits(item: Any) -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 1))
        given = {**item, "call_id": run.call_ids[0]} if isinstance(item, dict) and "call_id" in item else item
        error = await refused(owner, run.id, given)
        assert (error["code"], error["param"].split("[")[0]) == ("invalid_input", "input")
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ({"input": []}, "response_id"),
        ({"response_id": 7, "input": []}, "response_id"),
        ({"response_id": "resp_x"}, "input"),
        ({"response_id": "resp_x", "input": "text"}, "input"),
    ],
)
async def test_an_inject_that_lacks_its_fields_is_an_error(frame: dict[str, Any], param: str) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send({"type": "response.inject", **frame})
        error = await client.recv_error()
        assert (error["status"], error["error"]["code"], error["error"]["param"]) == (
            400,
            "invalid_request",
            param,
        )


async def test_a_run_that_returns_its_calls_takes_no_answer_while_it_runs() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        events = await owner.run(calling(server.data_dir, 1), tools=[{"type": "function", "name": "look"}])
        assert events[-1]["response"]["status"] == "completed"
        call_id = events[-1]["response"]["output"][0]["call_id"]
        run_id = events[-1]["response"]["id"]
        assert (await refused(owner, run_id, output(call_id)))["code"] == "response_already_completed"
        assert state_of(server, run_id)["pending_calls"] == []


async def test_cancelling_a_run_that_waits_ends_it_and_answers_come_too_late() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        run = await hold(owner, calling(server.data_dir, 2), calls=2)
        await waits(server, run)
        await taken(other, run.id, output(run.call_ids[0]))
        await other.send({"type": "response.cancel", "response_id": run.id})
        end = (await owner.collect_run())[-1]
        assert (end["type"], end["response"]["status"]) == ("response.incomplete", "cancelled")
        assert (await refused(other, run.id, output(run.call_ids[1])))["code"] == "response_already_completed"
        assert (await taken(other, run.id, output(run.call_ids[0])))["duplicate"] is True
        assert state_of(server, run.id)["pending_calls"] == []


async def test_cancels_and_answers_at_once_give_each_call_one_answer_and_each_run_one_end() -> None:
    async with running_server() as server, ws_client(server.ws_url) as owner, ws_client(server.ws_url) as other:
        model = calling(server.data_dir, 2)
        for n in range(40):
            run = await hold(owner, model, calls=2)
            for call_id in run.call_ids:
                await send_inject(other, run.id, [output(call_id)])
            if n % 2:
                await asyncio.sleep(0)
            await owner.send({"type": "response.cancel", "response_id": run.id})
            answers = [await injected(other) for _ in run.call_ids]
            events = checked(numbered([*run.events, *(await owner.collect_run())]))
            assert events.terminal is not None
            for answer in answers:
                assert answer["type"] == "response.inject.created" or (
                    answer["error"]["code"] == "response_already_completed"
                )
            for call_id, answer in zip(run.call_ids, answers, strict=True):
                again = await inject(other, run.id, output(call_id))
                assert (again["type"] == "response.inject.created") == (
                    answer["type"] == "response.inject.created"
                )


NO_RESULTS = "CREATE TRIGGER no_results BEFORE INSERT ON held_results BEGIN SELECT RAISE(ABORT, 'gone'); END;"


async def test_an_answer_that_cannot_be_stored_is_handed_back_and_can_be_sent_again() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 1))
        execute(server.data_dir / "antiphon.db", NO_RESULTS)
        error = await refused(owner, run.id, output(run.call_ids[0]))
        assert error["code"] == "storage_unavailable"
        assert len((await waits(server, run))["pending_calls"]) == 1
        execute(server.data_dir / "antiphon.db", "DROP TRIGGER no_results;")
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


async def test_a_deadline_that_cannot_be_stored_is_tried_again() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 1), antiphon={"deadline_s": 0.3})
        execute(server.data_dir / "antiphon.db", NO_RESULTS)
        deadline = (await waits(server, run))["pending_calls"][0]["deadline"]
        await until(lambda: server.app.engine.clock.now() > deadline + 0.2, "the deadline passing")
        assert state_of(server, run.id)["state"] == "waiting_for_tool"
        execute(server.data_dir / "antiphon.db", "DROP TRIGGER no_results;")
        assert "0.3 seconds" in outputs(await owner.collect_run())[0][1]
