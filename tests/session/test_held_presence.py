"""Who takes part in a run, as the others see it (PROTOCOL 10.6, 10.9)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tests.session.held import calling, hold, output, state_of, taken, tenants, waits
from tests.session.play import connected, started, until, words, write_script
from tests.support.http_client import open_sse
from tests.support.server import RunningServer, running_server


def participants(server: RunningServer, run_id: str) -> dict[str, dict[str, Any]]:
    return {row.get("connection", "many"): row for row in state_of(server, run_id)["participants"]}


async def present(server: RunningServer, run_id: str, count: int) -> dict[str, dict[str, Any]]:
    await until(lambda: len(participants(server, run_id)) == count, f"{count} participants")
    return participants(server, run_id)


async def test_who_comes_and_goes_is_pushed_to_those_who_stay() -> None:
    async with tenants() as server, connected(server.ws_url, api_key="anna") as anna:
        mine = (await anna.hello())["connection_id"]
        run = await hold(anna, calling(server.data_dir, 1))
        async with connected(server.ws_url, api_key="viewer") as viewer:
            theirs = (await viewer.hello())["connection_id"]
            await viewer.attach(run.id, after="now")
            frames = await anna.recv_until(
                lambda e: e["type"] == "antiphon:run" and len(e["state"]["participants"]) == 2
            )
            rows = {row["connection"]: row for row in frames[-1]["state"]["participants"]}
            assert rows[mine]["principal"] == "key:anna"
            assert rows[theirs] == {
                "connection": theirs,
                "principal": "key:viewer",
                "role": "viewer",
                "state": "watching",
                "label": None,
            }
        frames = await anna.recv_until(
            lambda e: e["type"] == "antiphon:run" and len(e["state"]["participants"]) == 1
        )
        assert frames[-1]["state"]["participants"][0]["connection"] == mine
        await taken(anna, run.id, output(run.call_ids[0]))
        await anna.collect_run()


async def test_presence_is_seen_by_the_others() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        await owner.hello()
        run = await hold(owner, calling(server.data_dir, 1))
        theirs = (await other.hello())["connection_id"]
        await other.attach(run.id, after="now")
        reply = await other.command("antiphon:presence", response_id=run.id, state="typing", label="a reply")
        assert reply.keys() == {"type", "id"}

        def typing(event: dict[str, Any]) -> bool:
            rows = event["state"]["participants"] if event["type"] == "antiphon:run" else []
            return any(
                r["connection"] == theirs and (r["state"], r["label"]) == ("typing", "a reply") for r in rows
            )

        await owner.recv_until(typing)
        conversation_id = state_of(server, run.id)["conversation_id"]
        await other.command("antiphon:presence", conversation_id=conversation_id, state="executing")
        await until(lambda: participants(server, run.id)[theirs]["state"] == "executing", "the presence")
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"response_id": "resp_x", "state": "typing"}, "not_attached"),
        ({"conversation_id": "conv_x", "state": "typing"}, "not_attached"),
        ({"state": "typing"}, "invalid_command"),
        ({"response_id": "r", "conversation_id": "c", "state": "typing"}, "invalid_command"),
        ({"response_id": "r", "state": "sleeping"}, "invalid_command"),
        ({"response_id": "r", "state": "typing", "label": "x" * 129}, "invalid_command"),
    ],
)
async def test_presence_that_cannot_be_shown_is_refused(fields: dict[str, Any], code: str) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        assert (await client.command("antiphon:presence", **fields))["code"] == code


async def test_a_connection_attached_twice_is_one_participant_until_both_ended() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        mine = (await owner.hello())["connection_id"]
        run = await hold(owner, calling(server.data_dir, 1))
        await waits(server, run)
        await owner.attach(run.id, after="now")
        await owner.command("antiphon:detach", response_id=run.id)
        assert list(await present(server, run.id, 1)) == [mine]
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


async def test_http_requests_that_stream_or_wait_take_part_too() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        run = await hold(owner, calling(server.data_dir, 1))
        url = f"{server.url}/v1/responses/{run.id}?stream=true"
        async with open_sse("GET", url) as stream:
            await present(server, run.id, 2)
            assert stream.response.status_code == 200
        await present(server, run.id, 1)
        async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
            body = {"model": calling(server.data_dir, 1), "input": "x", "antiphon": {"client_tools": "hold"}}
            tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
            headers = {"X-Antiphon-Instance": "cli-1"}
            posting = asyncio.create_task(
                http.post(f"{server.url}/v1/responses", json={**body, "tools": tools}, headers=headers)
            )
            await until(lambda: len(server.app.registry) == 2, "the other run")
            other = next(state.response_id for state in server.app.registry if state.response_id != run.id)
            await until(lambda: bool(state_of(server, other)["pending_calls"]), "its call")
            call = state_of(server, other)["pending_calls"][0]
            assert call["eligible"] == list(participants(server, other)), "the waiting creator is asked"
            await taken(owner, other, output(call["call_id"]))
            assert (await posting).json()["status"] == "completed"
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


async def test_over_a_hundred_participants_are_counted() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        await owner.hello()
        run = await hold(owner, calling(server.data_dir, 1))
        async with httpx2.AsyncClient(
            trust_env=False, timeout=10, limits=httpx2.Limits(max_connections=None)
        ) as http:
            url = f"{server.url}/v1/responses/{run.id}"
            requests = [http.build_request("GET", url, params={"stream": "true"}) for _ in range(120)]
            streams = [await http.send(request, stream=True) for request in requests]

            def counted(event: dict[str, Any]) -> bool:
                rows = event["state"]["participants"] if event["type"] == "antiphon:run" else []
                return rows == [{"role": "admin", "state": "watching", "count": 121}]

            await owner.recv_until(counted)
            for stream in streams:
                await stream.aclose()
        await until(lambda: "connection" in state_of(server, run.id)["participants"][0], "names again")
        await taken(owner, run.id, output(run.call_ids[0]))
        await owner.collect_run()


async def test_a_short_turn_costs_no_change_of_its_participants() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        run_id = (await client.run())[-1]["response"]["id"]
        events = [entry.event for entry in server.app.lifecycle.since("default", 0) or []]
        assert "run.updated" not in events
        shown = [e["state"]["participants"] for e in client.received if e["type"] == "antiphon:run"]
        assert any(shown), "and yet it is told, with what is told anyway"
        assert state_of(server, run_id)["state"] == "completed"


async def test_a_run_that_only_talks_has_participants_too() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "slow", [words(200, rate=50)])
        mine = (await client.hello())["connection_id"]
        await client.create(model)
        run_id = await started(client)
        assert list(await present(server, run_id, 1)) == [mine]
        await client.command("antiphon:cancel", response_id=run_id)
        await client.collect_run()
