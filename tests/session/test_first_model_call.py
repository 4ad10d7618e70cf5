"""What a run waits for before its first model call, and what providers add to what the model reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon.hooks import RunStarted, Subscriptions
from tests.contract.playing import LOOK, MODEL, Stage, call, keyed, response, says, stage
from tests.session.held import output, shown_calls, state_of, taken, waits
from tests.session.play import connected, stub_settings, until
from tests.support.server import running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, in_turn, play

HERE = "tests.session.test_first_model_call"
SECRET = "The password of the lighthouse is open-sesame-42."
DO = says(call("do", key="weather-in-oslo"))
DONE = says(("text", "All is done."))

asked: list[dict[str, str]] = []
seen: list[tuple[str, str]] = []


class Memory:
    async def get_context_for_run(self, **run: str) -> str:
        asked.append(run)
        return SECRET


class Weather:
    async def get_context(self, *, agent: str, tenant: str) -> str:
        return f"It rains on {tenant}."


class Broken:
    async def get_context(self, *, agent: str, tenant: str) -> str:
        raise RuntimeError("out of order")


def rooms(subscriptions: Subscriptions) -> None:
    for room in ("first", "second"):

        async def opened(run: RunStarted, room: str = room) -> None:
            await asyncio.sleep(0)
            seen.append((room, run.run_id))

        subscriptions.on("run.started", opened)


def hanging(subscriptions: Subscriptions) -> None:
    async def never(run: RunStarted) -> None:
        await asyncio.Event().wait()

    subscriptions.on("run.started", never)


def context(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name.lower(), "kind": "python", "entry": f"{HERE}:{name}", **more}


def observer(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "entry": f"{HERE}:{name}", **more}


def events_of(it: Stage) -> list[tuple[str, dict[str, Any]]]:
    return [(entry.event, entry.data) for entry in it.server.app.lifecycle.since("default", 0) or []]


def instructions(it: Stage) -> list[str | None]:
    return [request.body.get("instructions") for request in it.stub.requests]


# The started barrier


async def test_every_observer_of_the_start_is_done_before_the_first_model_call() -> None:
    told_before: list[int] = []

    async def counting(request: StubRequest, conn: StubConn) -> None:
        told_before.append(len(seen))
        await play(DONE)(request, conn)

    seen.clear()
    async with stage(counting, observer=[observer("rooms")]) as it:
        run_id = response(await it.run())["id"]
        names = [name for name, _ in events_of(it) if name != "run.updated"]
    assert seen == [("first", run_id), ("second", run_id)]
    assert told_before == [2]
    assert names[:3] == ["run.created", "run.started", "run.step.started"]


async def test_a_hung_observer_costs_its_time_and_no_more() -> None:
    async with stage(DONE, observer=[observer("hanging", timeout_s=0.05)]) as it:
        assert response(await it.run())["status"] == "completed"


async def test_without_a_required_observer_no_model_is_called() -> None:
    async with stage(DONE, observer=[observer("hanging", timeout_s=0.05, required=True)]) as it:
        events = await it.run()
        assert response(events)["error"]["code"] == "server_error"
        assert it.stub.requests == []
        assert [name for name, _ in events_of(it) if name != "run.updated"] == ["run.created", "run.failed"]


async def test_a_cancel_during_the_barrier_ends_the_run_without_a_model_call() -> None:
    async with stage(DONE, observer=[observer("hanging", timeout_s=60)]) as it:
        await it.client.create(MODEL, input="go")
        created = await it.client.recv_on()
        await it.client.send({"type": "response.cancel", "response_id": created["response"]["id"]})
        events = [created, *await it.client.collect_run()]
        assert (response(events)["status"], it.stub.requests) == ("cancelled", [])


# Context providers


async def test_what_providers_say_precedes_the_instructions_in_every_call_and_is_nowhere_else() -> None:
    asked.clear()
    providers = [context("Memory"), context("Weather")]
    async with stage(DO, DONE, has=[keyed("do")], context=providers) as it:
        events = await it.run(instructions="Be brief.")
        wanted = f"{SECRET}\n\nIt rains on default.\n\nBe brief."
        assert instructions(it) == [wanted, wanted]
        assert response(events)["instructions"] == "Be brief."
        run_id = response(events)["id"]
        conversation = it.server.app.registry.get(run_id).conversation_id
        assert asked == [
            {
                "tenant": "default",
                "principal": "user:local",
                "agent": "default",
                "conversation": conversation,
                "run_id": run_id,
                "source": "system",
            }
        ]
        assert SECRET not in str(events) and SECRET not in str(events_of(it))
        await it.server.app.backends.flush()
        files = list(it.server.data_dir.glob("antiphon.db*"))
        assert files and not any(SECRET.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize(
    ("names", "said"), [(["weather"], "It rains on default."), ([], None), (["memory"], SECRET)]
)
async def test_a_run_names_its_providers(names: Sequence[str], said: str | None) -> None:
    async with stage(DONE, context=[context("Memory"), context("Weather")]) as it:
        await it.run(antiphon={"context": list(names)})
        assert instructions(it) == [said]


async def test_a_provider_that_fails_is_visible_and_the_run_goes_on() -> None:
    async with stage(DONE, context=[context("Broken"), context("Weather")]) as it:
        assert response(await it.run())["status"] == "completed"
        assert instructions(it) == ["It rains on default."]
        assert ("run.updated", {"context_failed": ["broken"]}) in events_of(it)


async def test_without_a_required_provider_no_model_is_called() -> None:
    async with stage(DONE, context=[context("Broken", required=True)]) as it:
        events = await it.run()
        assert (response(events)["error"]["code"], it.stub.requests) == ("server_error", [])
        assert "out of order" not in str(events)


async def test_a_compaction_is_told_nothing_by_providers() -> None:
    async with stage(DONE, context=[context("Memory")]) as it:
        parent = response(await it.run())["id"]
        await it.run([{"type": "compaction_trigger"}], previous_response_id=parent)
        assert SECRET not in str(it.stub.requests[1].body)


# Another process


async def test_who_takes_a_waiting_run_up_asks_providers_again_and_starts_and_charges_nothing_twice(
    tmp_path: Path,
) -> None:
    asked.clear()
    seen.clear()
    rounds = in_turn(play(says(call("look", "look"))), play(DONE))
    settings = {"context": [context("Memory")], "observer": [observer("rooms")]}
    async with StubUpstream(rounds) as stub:
        everything = {**stub_settings(stub), **settings}
        async with running_server(tmp_path, **everything) as server, connected(server.ws_url) as client:
            await client.hello()
            await client.create(MODEL, tools=[LOOK], antiphon={"client_tools": "hold"})
            run = await shown_calls(client, 1)
            await waits(server, run)
        async with running_server(tmp_path, **everything) as server, connected(server.ws_url) as client:
            await client.hello()
            await taken(client, run.id, output(run.call_ids[0]))
            await until(lambda: state_of(server, run.id)["state"] == "completed", "the end of the run")
            state = state_of(server, run.id)
            names = [entry.event for entry in server.app.lifecycle.since("default", 0) or []]
            accounts = server.app.accounts
            await accounts.flush()
            rows = await accounts.usage.calls_of(run.id)
        bodies = [request.body["instructions"] for request in stub.requests]
    assert (len(asked), bodies) == (2, [SECRET, SECRET])
    assert [room for room, _ in seen] == ["first", "second"]
    assert "run.started" not in names
    assert [row.step for row in rows] == ["1", "2"]
    assert state["usage"]["total_tokens"] == sum(row.total_tokens for row in rows) == 16
    assert state["step"] == 2
