"""A run that waits for its clients waits across kill -9 and across an orderly restart (PROTOCOL 7.4.9)."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.session.held import calling, hold, output, outputs, refused, taken
from tests.session.play import attach_all, checked, connected, log_bytes, numbered, reference, until
from tests.support.server import ServerProcess
from tests.support.ws_client import WsClient


def is_kept(folder: Path, run_id: str) -> bool:
    """Whether the run could be taken up again."""
    with contextlib.closing(sqlite3.connect(folder / "antiphon.db")) as database:
        query = "SELECT count(*) FROM checkpoints WHERE run_id = ?"
        return bool(database.execute(query, (run_id,)).fetchone()[0])


async def pending(client: WsClient, run_id: str) -> list[str]:
    """The calls that a run waits for, as an attach tells them; detaches again."""
    state = (await client.attach(run_id, after="now"))["state"]
    await client.command("antiphon:detach", response_id=run_id)
    assert state["state"] == "waiting_for_tool"
    return [call["call_id"] for call in state["pending_calls"]]


@pytest.mark.parametrize("how", ["killed", "restarted"])
async def test_a_waiting_run_goes_on_after_a_restart_with_the_answers_it_had(tmp_path: Path, how: str) -> None:
    model = calling(tmp_path, 3)
    async with ServerProcess(tmp_path, {"ANTIPHON_TIMEOUTS__DRAIN_S": "0.2"}) as server:
        async with connected(server.ws_url) as owner, connected(server.ws_url) as observer:
            await owner.hello(client={"name": "t", "instance_id": "tab"})
            run = await hold(owner, model, calls=3)
            await owner.recv_until(
                lambda e: e["type"] == "antiphon:run" and e["state"]["state"] == "waiting_for_tool"
            )
            await taken(owner, run.id, output(run.call_ids[1], "before", result_id="r-2"))
            claim = await owner.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[0])
            await observer.hello()
            if how == "killed":
                await server.kill()
            else:
                server.signal(signal.SIGTERM)
                await server.wait()
            await owner.wait_closed()
        seen = [e for e in numbered(owner.received) if not e["type"].startswith("response.inject.")]
        await server.start()
        async with connected(server.ws_url) as other, connected(server.ws_url) as back:
            await other.hello()
            assert await pending(other, run.id) == [run.call_ids[0], run.call_ids[2]]
            error = await refused(other, run.id, output(run.call_ids[1], "again"))
            assert (error["code"], error["winner"]["instance"]) == ("already_resolved", "tab")
            assert (await refused(other, run.id, output(run.call_ids[0])))["code"] == "claim_held"
            await back.hello(client={"name": "t", "instance_id": "tab"})
            assert (await taken(back, run.id, output(run.call_ids[1], "twice")))["duplicate"] is True
            lane = (await back.attach(run.id, after="start"))["stream_id"]
            await taken(other, run.id, output(run.call_ids[2], "after"))
            renewed = await back.command(
                "antiphon:renew", response_id=run.id, call_id=run.call_ids[0], fence=claim["fence"]
            )
            assert renewed["type"] == "antiphon:ok"
            await back.send(
                {
                    "type": "response.inject",
                    "response_id": run.id,
                    "input": [output(run.call_ids[0], "mine", fence=claim["fence"])],
                }
            )
            await back.collect_attachment(lane)
            whole = await attach_all(other, run.id)
        assert checked(whole).text == "done"
        assert outputs(whole) == list(zip(run.call_ids, ["mine", "before", "after"], strict=True))
        kept = log_bytes(whole)
        assert [event for event in log_bytes(seen) if event not in kept] == []
        assert log_bytes(await reference(server.ws_url, run.id)) == kept


async def test_a_deadline_that_passes_while_the_server_is_away_passes_when_it_is_back(tmp_path: Path) -> None:
    model = calling(tmp_path, 1)
    async with ServerProcess(tmp_path) as server:
        async with connected(server.ws_url) as owner:
            await owner.hello()
            run = await hold(owner, model, antiphon={"deadline_s": 1.0})
            await until(lambda: is_kept(tmp_path, run.id), "the checkpoint")
            await server.kill()
            await owner.wait_closed()
        await server.start()
        whole = await reference(server.ws_url, run.id, 20)
        assert "1 seconds" in outputs(whole)[0][1]
        assert whole[-1]["response"]["status"] == "completed"


async def test_losers_and_repeats_of_an_ended_run_are_told_the_truth_after_a_restart(tmp_path: Path) -> None:
    model = calling(tmp_path, 1)
    async with ServerProcess(tmp_path) as server:
        async with connected(server.ws_url) as owner:
            run = await hold(owner, model)
            await taken(owner, run.id, output(run.call_ids[0], result_id="r"))
            await owner.collect_run()
        await server.kill()
        await server.start()
        async with connected(server.ws_url) as other:
            assert (await refused(other, run.id, output(run.call_ids[0])))["code"] == "already_resolved"
            again = await taken(other, run.id, output(run.call_ids[0], result_id="r"))
            assert again["duplicate"] is True
            assert again["sequence_number"] > run.events[-1]["sequence_number"]
