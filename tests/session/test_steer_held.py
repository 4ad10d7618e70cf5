"""Steering of a run that waits for its clients (PROTOCOL 7.3.4, 7.3.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.http.calling import get
from tests.session.play import connected, response_id, words, write_script
from tests.session.speaking import WHOLE, Speaker
from tests.session.test_steer import TOOL, code_of, outputs, reason_of, speaking, steer, turn
from tests.support.server import RunningServer, ServerProcess
from tests.support.ws_client import Event, WsClient

HOLD = {"client_tools": "hold"}


async def waiting(client: WsClient, model: str, **fields: Any) -> tuple[str, str, list[Event]]:
    """Start a run that calls a tool and waits for its answer: its id, the call's id, what came."""
    await client.create(model, "first", tools=[TOOL], antiphon=HOLD, **fields)
    seen = await client.recv_until(
        lambda e: e["type"] == "antiphon:run" and e["state"]["state"] == "waiting_for_tool"
    )
    [call] = [e["item"] for e in seen if e["type"] == "response.output_item.done"]
    return response_id(seen), call["call_id"], [e for e in seen if not e["type"].startswith("antiphon:")]


async def inject(client: WsClient, run_id: str, call_id: str) -> None:
    await client.send({"type": "response.inject", "response_id": run_id, "input": outputs(call_id)})


async def test_a_steer_of_a_waiting_run_is_heard_when_its_calls_are_answered() -> None:
    speaker = Speaker([("look", "{}")], WHOLE)
    async with speaking(speaker) as (_, client):
        await client.hello()
        speaker.release()
        target, call_id, seen = await waiting(client, "stub-model")
        assert (await steer(client, target, "second"))["type"] == "response.steer.accepted"
        await inject(client, target, call_id)
        log = [*seen, *await client.collect_run()]
        assert reason_of(log[-1]) == ("incomplete", "steered")
        assert [item["type"] for item in log[-1]["response"]["output"]] == [
            "function_call",
            "function_call_output",
        ]
        await turn(client)
        kinds = [item.get("type", "message") for item in speaker.inputs[-1]]
        assert kinds == ["message", "function_call", "function_call_output", "message"]
        assert speaker.said_by_user() == ["first", "second"]


async def test_a_cancelled_wait_hands_the_steer_back() -> None:
    speaker = Speaker([("look", "{}")])
    async with speaking(speaker) as (_, client):
        await client.hello()
        speaker.release()
        target, _, _ = await waiting(client, "stub-model")
        await steer(client, target, "second")
        await client.send({"type": "response.cancel", "response_id": target})
        notice = (await client.recv_until(lambda e: e["type"] == "response.steer.failed"))[-1]
        assert (code_of(notice), notice["steer"]["input"]) == ("response_not_active", "second")


async def test_a_steer_of_a_waiting_run_outlives_a_crash(tmp_path: Path) -> None:
    model = write_script(tmp_path, "asks", [{"call": {"name": "look", "arguments": {}}}], [words(2)])
    async with ServerProcess(tmp_path) as server:
        async with connected(server.ws_url) as client:
            await client.hello()
            target, call_id, _ = await waiting(client, model)
            accepted = await steer(client, target, "second")
        await server.kill()
        await server.start()
        async with connected(server.ws_url) as client:
            await client.hello()
            attached = await client.attach(target, after="now")
            row = {"id": accepted["steer"]["id"], "stage": "accepted", "principal": "user:local"}
            assert attached["state"]["steers"] == [row]
            await inject(client, target, call_id)
            frames = await client.collect_attachment(attached["stream_id"])
            end = next(e for e in frames if e["type"] == "response.incomplete")
            assert reason_of(end) == ("incomplete", "steered")
            begun = await client.recv_until(
                lambda e: e["type"] == "antiphon:run_attached", stream_id=attached["stream_id"]
            )
            successor = begun[-1]["response_id"]
            items = await input_of(server, successor)
            assert items == ["second"]


async def input_of(server: ServerProcess | RunningServer, run_id: str) -> list[str]:
    """The texts of a response's own input."""
    answer = await get(server, f"/v1/responses/{run_id}/input_items", order="asc")  # type: ignore[arg-type]
    return [item["content"][0]["text"] for item in answer.json()["data"]]
