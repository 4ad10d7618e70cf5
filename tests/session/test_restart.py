"""kill -9 in mid-run: a truthful end, what was kept, word about the epoch (R-05, R-13, D-06; PROTOCOL 6.4)."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    reference,
    response_id,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import ServerProcess
from tests.support.stub_upstream import StubUpstream, hang, in_turn, text
from tests.support.ws_client import Event

SLOW = [words(400, rate=100)]


async def get(url: str, run_id: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
        return await http.get(f"{url}/v1/responses/{run_id}")


async def seen_before_the_kill(server: ServerProcess, model: str, word: str) -> tuple[str, list[Event], str]:
    """Create, read up to a word, kill; gives the epoch, what was read, and the id."""
    async with connected(server.ws_url) as client, connected(server.ws_url) as other:
        await other.hello()
        await client.create(model, idempotency_key="k")
        first = await client.recv_on()
        epoch = (await other.attach(response_id([first]), after="now"))["epoch"]
        seen = [first, *await client.recv_until(lambda event: event.get("delta") == word)]
        await server.kill()
        await client.wait_closed()
        rest = [event for event in client.received[len(seen) :] if event["type"] != "keepalive"]
        return epoch, [*seen, *rest], response_id([first])


async def test_a_run_that_a_crash_ended_is_listed_and_counted(tmp_path: Path) -> None:
    model = write_script(tmp_path, "slow", SLOW)
    server = ServerProcess(tmp_path)
    async with server:
        _, _, run_id = await seen_before_the_kill(server, model, "w20 ")
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as http:
            rows = (await http.get("/v1/runs")).json()["data"]
            page = (await http.get("/metrics")).text
    assert [(row["response_id"], row["state"], row["terminal"]["code"]) for row in rows] == [
        (run_id, "failed", "server_lost")
    ]
    assert 'antiphon_runs_ended_total{code="server_lost",state="failed"} 1.0' in page


@pytest.mark.parametrize("mode", ["relaxed", "strict"])
async def test_a_killed_run_ends_as_server_lost_after_its_last_durable_event(tmp_path: Path, mode: str) -> None:
    model = write_script(tmp_path, "slow", SLOW)
    server = ServerProcess(tmp_path, {"ANTIPHON_JOURNAL__MODE": mode})
    async with server:
        epoch, seen, run_id = await seen_before_the_kill(server, model, "w60 ")
        await server.start()
        async with connected(server.ws_url) as client:
            await client.hello()
            last = seen[-1]["sequence_number"]
            reply = await client.command("antiphon:attach", response_id=run_id, after=last, epoch=epoch)
            whole = await attach_all(client, run_id, after="start")
            end = whole[-1]
            fork = end["sequence_number"]
            if reply["type"] == "antiphon:error":
                assert mode == "relaxed", "strict shows nothing that can be lost"
                assert (reply["code"], reply["fork"]) == ("epoch_changed", fork)
                assert fork <= last
                assert reply["epoch"] != epoch
            else:
                assert (reply["mode"], fork > last) == ("replay", True)
                assert (reply["epoch"] == epoch) == (mode == "strict")
            check_run(whole)
            kept = min(fork, len(seen))
            assert log_bytes(whole)[:kept] == log_bytes(seen)[:kept]
            assert kept >= 40, "events older than a flush are durable"
            assert (end["type"], end["response"]["error"]["code"]) == ("response.failed", "server_lost")
            below = await client.attach(run_id, after=fork - 1, epoch=epoch)
            assert numbered(await client.collect_attachment(below["stream_id"])) != []
            assert below["state"]["state"] == "failed"
            assert below["epoch"] == below["state"]["epoch"]
        stored = (await get(server.url, run_id)).json()
        assert stored == end["response"]
        assert stored["output"][0]["status"] == "incomplete"
        await server.kill()
        await server.start()
        assert log_bytes(await reference(server.ws_url, run_id)) == log_bytes(whole), "no second end"


async def test_the_conversation_goes_on_from_before_the_killed_turn_and_the_key_finds_it(tmp_path: Path) -> None:
    model = write_script(tmp_path, "slow", SLOW)
    async with ServerProcess(tmp_path) as server:
        async with connected(server.ws_url) as client:
            before = await client.run(input="before", idempotency_key="done")
        _, _, run_id = await seen_before_the_kill(server, model, "w10 ")
        await server.start()
        assert log_bytes(await reference(server.ws_url, response_id(before))) == log_bytes(before)
        async with connected(server.ws_url) as client:
            await client.create(input="x", previous_response_id=run_id)
            assert (await client.recv_error())["error"]["code"] == "response_not_continuable"
            after = await client.run(input="after", previous_response_id=response_id(before))
            assert after[-1]["response"]["usage"]["input_tokens"] == 3
            again = await client.run(model, idempotency_key="k")
            assert (response_id(again), again[-1]["response"]["error"]["code"]) == (run_id, "server_lost")
            assert log_bytes(await client.run(input="before", idempotency_key="done")) == log_bytes(before)
            await client.create(input="another body", idempotency_key="k")
            assert (await client.recv_error())["error"]["code"] == "idempotency_conflict"


async def test_a_run_killed_before_its_first_token_is_made_again_and_an_unstored_one_is_gone(
    tmp_path: Path,
) -> None:
    async with StubUpstream(in_turn(hang(), hang(), text(3))) as stub:
        config = tmp_path / "antiphon.toml"
        config.write_text(f'[[upstream]]\nname = "stub"\nurl = "{stub.url}"\nmodels = ["stub-model"]\n')
        async with ServerProcess(tmp_path) as server:
            async with connected(server.ws_url) as client, httpx2.AsyncClient(timeout=10, trust_env=False) as http:
                body = {"model": "stub-model", "input": "x", "background": True}
                queued = (await http.post(f"{server.url}/v1/responses", json=body)).json()
                assert queued["status"] in ("queued", "in_progress")
                await client.create("stub-model", store=False)
                unstored = response_id([await client.recv_on()])
                await stub.request(1)
                await server.kill()
            await server.start()
            run = await reference(server.ws_url, queued["id"])
            assert [event["type"] for event in run[:3]] == [
                "response.created",
                "response.queued",
                "response.in_progress",
            ]
            again = check_run(run).terminal
            assert (again["status"], again["output"][0]["content"][0]["text"]) == ("completed", "w0 w1 w2 ")
            assert (await get(server.url, queued["id"])).json() == again
            assert [request.body["input"] for request in stub.requests[::2]] == [
                [{"type": "message", "role": "user", "content": "x"}]
            ] * 2
            async with connected(server.ws_url) as client:
                await client.hello()
                gone = await client.command("antiphon:attach", response_id=unstored)
                assert gone["code"] == "response_not_found"
