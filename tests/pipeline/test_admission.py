"""What a run takes of its tenant's quotas, and when it gives it back (acceptance C, D; door, steps 1 and 2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from antiphon.core.principal import Principal
from antiphon.core.quotas import Ask, Ballot
from antiphon.errors import BusError
from antiphon.hooks import Next, RunOutcome, RunRequest, RunStarted
from antiphon.journal.contract import RunLost
from tests.http.calling import create, error_of, http, until
from tests.pipeline.agents import call, post, serving
from tests.pipeline.hooking import around, events_of, nothing_is_left
from tests.support.stub_upstream import StubConn, StubRequest, answering, hang, text
from tests.support.ws_client import ws_client


def limited(**quotas: Any) -> dict[str, Any]:
    return {"tenant": [{"id": "acme", "quotas": quotas, "models": ["small"]}, {"id": "other"}]}


REFUSED: list[dict[str, Any]] = [
    {"model": "small", "previous_response_id": "resp_" + "0" * 32},
    {"model": "small", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
    {"model": "small", "input": [{"type": "item_reference", "id": "msg_1"}]},
    {"model": "small", "input": "deny"},
    {"model": "agent:nobody"},
    {"model": "large"},
    {"model": "agent:closed"},
    {},
    {"model": "small", "tools": [{"type": "mcp", "server_label": "x"}]},
    {"model": "small", "antiphon": {"context": ["nobody"]}},
]
"""A refusal at each step of the door."""


async def guarding(request: RunRequest, go_on: Next) -> Any:
    return None if request.texts() == ["deny"] else await go_on(request)


async def test_a_refusal_at_any_step_gives_everything_back_and_leaves_nothing() -> None:
    closed = [{"name": "closed", "model": "large"}]
    async with serving(agent=closed, **limited(requests_per_day=1, concurrent_runs=1)) as (stub, server):
        around(server, guarding)
        with structlog.testing.capture_logs() as lines:
            for fields in REFUSED:
                for more in ({}, {"idempotency_key": "k"}, {"store": False, "idempotency_key": "u"}):
                    answer = await post(server, **fields, **more)
                    assert answer.status_code in (400, 403, 404, 500), (fields, answer.text)
        refused = [line for line in lines if line["event"] == "create_refused"]
        assert len(refused) == len({line["response_id"] for line in refused}) == 3 * len(REFUSED)
        await nothing_is_left(server)
        assert stub.requests == []
        assert (await post(server, model="small")).status_code == 200
        spent = await post(server, model="small")
        assert (spent.status_code, error_of(spent)["message"]) == (429, "Daily request quota exceeded")


async def test_of_many_starts_for_the_last_unit_one_is_admitted() -> None:
    async with serving(**limited(requests_per_day=1)) as (stub, server), http(server, "driver") as client:
        sent = {"model": "small", "input": "x"}
        answers = await asyncio.gather(*(client.post("/v1/responses", json=sent) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [200, *[429] * 19]
        assert len(stub.requests) == 1


async def test_a_slot_is_free_again_however_the_run_ends() -> None:
    async with serving(retry={"max_attempts": 1}, **limited(concurrent_runs=1)) as (stub, server):
        for handler in (text(1), answering(400, {"error": {"message": "no"}}), answering(503, {})):
            stub.handler = handler
            await post(server, model="small")
        stub.handler = hang()
        begun = (await post(server, model="small", background=True)).json()["id"]
        full = await post(server, model="small")
        assert (full.status_code, error_of(full)["code"]) == (429, "too_many_runs")
        await call(server, "driver", "POST", f"/v1/responses/{begun}/cancel")
        stub.handler = text(1)
        assert (await post(server, model="small", generate=False)).status_code == 200
        assert (await post(server, model="small")).json()["status"] == "completed"


async def test_repeats_and_warm_ups_take_nothing() -> None:
    async with serving(**limited(requests_per_day=1)) as (_, server):
        assert (await post(server, model="small", generate=False)).status_code == 200
        first, again = [(await post(server, model="small", idempotency_key="k")).json() for _ in range(2)]
        assert first["id"] == again["id"]
        assert (await post(server, model="small", idempotency_key="other")).status_code == 429


async def test_compacting_takes_a_request_and_gives_its_slot_back() -> None:
    sent = {"model": "small", "input": "a long story"}
    async with serving(**limited(requests_per_day=2, concurrent_runs=1)) as (_, server):
        path = "/v1/responses/compact"
        answers = [await call(server, "driver", "POST", path, sent) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        await server.app.accounts.flush()
        rows = await server.app.accounts.usage.calls_of(answers[0].json()["id"])
        assert [(row.step, row.model, row.agent) for row in rows] == [("compaction:1", "small", "default")]


async def test_a_tenant_without_quota_is_told_so_in_the_agreed_words() -> None:
    async with (
        serving(**limited(requests_per_month=0)) as (stub, server),
        ws_client(server.ws_url, api_key="driver") as socket,
    ):
        answer = await post(server, model="small")
        assert (answer.status_code, error_of(answer)["code"]) == (429, "quota_exceeded")
        assert error_of(answer)["message"] == "Monthly request quota exceeded"
        assert int(answer.headers["retry-after"]) > 0
        await socket.create("small")
        told = await socket.recv_error()
        assert (told["status"], told["error"]["message"]) == (429, "Monthly request quota exceeded")
        assert stub.requests == []
        await nothing_is_left(server)


async def test_the_steps_of_a_run_stand_in_the_order_of_the_contract() -> None:
    trace: list[str] = []

    def admit(ask: Ask) -> Ballot:
        trace.append("admit")
        return "abstain"

    async def middleware(request: RunRequest, go_on: Next) -> RunOutcome:
        trace.append("middleware")
        outcome = await go_on(request)
        trace.append("middleware heard")
        return outcome

    async def barrier(started: RunStarted) -> None:
        events = events_of(server, started.run_id)
        trace.append(f"barrier behind {' '.join(events)}")

    async def model(request: StubRequest, conn: StubConn) -> None:
        trace.append("model")
        await text(1)(request, conn)

    async with serving(handler=model) as (_, server):
        server.app.accounts.admission.policies.append(admit)
        around(server, middleware)
        server.app.hooks.dispatcher.subscribe("run.started", barrier, name="barrier")
        run_id = (await create(server, model="small", key="driver"))["id"]
        await until(lambda: trace[-1] == "middleware heard")
        assert trace == ["admit", "middleware", "barrier behind run.created", "model", "middleware heard"]
        events = [event for event in events_of(server, run_id) if event != "run.step.started"]
        assert events == ["run.created", "run.started", "run.usage", "run.completed"]


@pytest.mark.parametrize("origin", ["http", "socket"])
async def test_when_admission_denies_nothing_else_is_asked(origin: str) -> None:
    asked: list[str] = []

    async def middleware(request: RunRequest, go_on: Next) -> RunOutcome:
        asked.append("middleware")
        return await go_on(request)

    async with serving(**limited(requests_per_day=0)) as (stub, server):
        around(server, middleware)
        if origin == "http":
            assert (await post(server, model="small", previous_response_id="resp_x")).status_code == 429
        else:
            async with ws_client(server.ws_url, api_key="driver") as socket:
                await socket.create("small", previous_response_id="resp_x")
                assert (await socket.recv_error())["status"] == 429
        assert asked == []
        assert stub.requests == []
        await nothing_is_left(server)


async def test_a_create_that_is_cut_off_on_the_way_gives_everything_back() -> None:
    inside, cut = asyncio.Event(), asyncio.Event()

    async def slow(request: RunRequest, go_on: Next) -> RunOutcome:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return await go_on(request)

    driver = Principal("key:driver", "acme", "driver")
    async with serving(**limited(requests_per_day=1, concurrent_runs=1)) as (_, server):
        around(server, slow)
        starting = asyncio.create_task(server.app.run(driver, {"model": "small", "input": "x"}))
        await inside.wait()
        assert (await post(server, model="small")).status_code == 429
        starting.cancel()
        await asyncio.wait([starting])
        await asyncio.wait_for(cut.wait(), 10)
        await nothing_is_left(server)
        reservation = await server.app.accounts.admission.reserve(driver, "resp_next", agent=None)
        reservation.release()


async def test_a_run_that_another_node_takes_as_it_begins_leaves_its_slot_to_that_one() -> None:
    driver = Principal("key:driver", "acme", "driver")
    async with serving(**limited(requests_per_day=5, concurrent_runs=1)) as (_, server):
        around(server, guarding)
        journal = server.app.backends.journal
        flush, began = journal.flush, []

        async def lost(log: Any) -> None:
            began.append(log.run_id)
            raise RunLost(log.run_id)

        journal.flush = lost  # type: ignore[assignment, method-assign]
        with pytest.raises(BusError, match="Another node took the run over"):
            await server.app.run(driver, {"model": "small", "input": "x", "idempotency_key": "k"})
        journal.flush = flush  # type: ignore[method-assign]
        (run_id,) = began
        run = server.app.engine.directory.own(run_id)
        assert run is not None and run.reservation is not None
        run.reservation.release()
        run.reservation.ended()  # neither gives back what is another node's now
        assert not server.app.accounts.admission.is_live(run_id)


async def test_a_create_that_is_cut_off_when_its_run_exists_is_carried_through() -> None:
    flushing, go_on = asyncio.Event(), asyncio.Event()
    driver = Principal("key:driver", "acme", "driver")
    request = {"model": "small", "input": "x", "idempotency_key": "k"}
    async with serving(**limited(requests_per_day=1, concurrent_runs=1)) as (stub, server):
        journal = server.app.backends.journal
        flush = journal.flush

        async def slowly(log: Any) -> None:
            flushing.set()
            await go_on.wait()
            await flush(log)

        journal.flush = slowly  # type: ignore[assignment, method-assign]
        starting = asyncio.create_task(server.app.run(driver, request))
        await flushing.wait()
        starting.cancel()
        await asyncio.wait([starting])
        go_on.set()
        journal.flush = flush  # type: ignore[method-assign]
        result = await server.app.run(driver, request)
        assert result.response["status"] == "completed"
        assert len(stub.requests) == 1
        assert not server.app.accounts.admission.is_live(result.run_id)
