"""Stop: from any client, at the upstream too, once and for all (PROTOCOL 8.4; C-01, C-05, C-07, C-09)."""

from __future__ import annotations

import asyncio
import time

import httpx2
import pytest

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    reference,
    response_id,
    started,
    stub_settings,
    text_of,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, hang, text
from tests.support.ws_client import WsClient


async def send_cancel(kind: str, client: WsClient, url: str, run_id: str) -> None:
    if kind == "response.cancel":
        await client.send({"type": kind, "response_id": run_id})
    elif kind == "antiphon:cancel":
        assert (await client.command(kind, response_id=run_id, reason="stop"))["result"] == "accepted"
    else:
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            answer = await http.post(f"{url}/v1/responses/{run_id}/cancel")
            assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


@pytest.mark.parametrize("kind", ["response.cancel", "antiphon:cancel", "http"])
async def test_a_cancel_from_another_connection_ends_the_run_everywhere(kind: str) -> None:
    async with (
        StubUpstream(text(600, rate=10)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as other,
        connected(server.ws_url) as viewer,
    ):
        await other.hello()
        await viewer.hello()
        async with connected(server.ws_url) as owner:
            await owner.create("stub-model")
            run_id = response_id(await owner.recv_until(lambda event: event.get("delta") == "w3 "))
            await owner.abort()
        attached = await viewer.attach(run_id)
        request = await stub.request(0)
        begun = time.monotonic()
        await send_cancel(kind, other, server.url, run_id)
        assert await asyncio.wait_for(request.closed, 5) - begun < 0.5, "the upstream was not let go in time"
        frames = numbered(await viewer.collect_attachment(attached["stream_id"]))
        assert time.monotonic() - begun < 2
        checked = check_run(frames)
        assert checked.terminal is not None
        assert frames[-1]["type"] == "response.incomplete"
        assert checked.terminal["status"] == "cancelled"
        assert checked.terminal["incomplete_details"] == {"reason": "cancelled"}
        assert checked.items[0]["status"] == "incomplete"
        assert checked.text == text_of(frames)
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            assert (await http.get(f"{server.url}/v1/responses/{run_id}")).json() == checked.terminal
        assert log_bytes(await reference(server.ws_url, run_id)) == log_bytes(frames)


async def test_an_upstream_that_ignores_the_close_or_never_answered_is_let_go_as_fast() -> None:
    for deaf, handler in ((True, text(600, rate=20)), (False, hang())):
        async with (
            StubUpstream(handler) as stub,
            running_server(**stub_settings(stub)) as server,
            connected(server.ws_url) as client,
        ):
            stub.ignore_fin = deaf
            await client.create("stub-model")
            run_id = await started(client)
            request = await stub.request(0)
            begun = time.monotonic()
            await client.send({"type": "response.cancel", "response_id": run_id})
            assert (await client.collect_run())[-1]["response"]["status"] == "cancelled"
            assert await asyncio.wait_for(request.closed, 5) - begun < 0.5


async def test_cancelling_again_and_after_the_end_changes_nothing() -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        await other.hello()
        model = write_script(server.data_dir, "held", [words(2), {"delay_s": 30}])
        await client.create(model)
        run_id = await started(client)
        replies = await asyncio.gather(*(other.command("antiphon:cancel", response_id=run_id) for _ in range(5)))
        assert {reply["result"] for reply in replies} <= {"accepted", "already_terminal"}
        assert replies[0]["result"] == "accepted"
        cancelled = await client.collect_run()
        for done in (run_id, response_id(await client.run(input="complete"))):
            assert (await other.command("antiphon:cancel", response_id=done))["result"] == "already_terminal"
            await client.send({"type": "response.cancel", "response_id": done})
        assert (await client.run(input="next"))[0]["type"] == "response.created"
        assert (await attach_all(other, run_id))[-1]["response"] == cancelled[-1]["response"]


async def test_the_tail_of_a_cancelled_turn_is_never_in_the_next_one() -> None:
    """C-07: cancel and the next create in one segment, with the upstream still talking; 50 rounds."""

    async def chatter(request, conn):  # type: ignore[no-untyped-def]
        word = request.body["input"][-1]["content"]
        await text(2000, rate=500)(request, conn) if word == "first" else await text(1)(request, conn)

    async with (
        StubUpstream(chatter) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        for _ in range(50):
            await client.create("stub-model", "first", store=False)
            run_id = await started(client)
            await client.recv_until(lambda event: event["type"] == "response.output_text.delta")
            await asyncio.gather(
                client.send({"type": "response.cancel", "response_id": run_id}),
                client.create("stub-model", "second", store=False),
            )
            first = await client.collect_run()
            assert first[-1]["response"]["status"] == "cancelled"
            second = check_run(await client.collect_run())
            assert (second.text, second.response_id != run_id) == ("w0 ", True)


async def test_a_cancel_closes_half_items_and_open_calls() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        steps = [{"call": {"name": "f"}}, {"call": {"name": "f"}}, words(3), {"delay_s": 30}]
        model = write_script(server.data_dir, "half", steps)
        await client.create(model, tools=[{"type": "function", "name": "f", "parameters": {}}], stream_id="a")
        run_id = await started(client, "a")
        await client.recv_until(lambda event: event.get("delta") == "w2 ", stream_id="a")
        await client.send({"type": "response.cancel", "response_id": run_id})
        await client.collect_run("a")
        checked = check_run(event for event in client.received if event.get("stream_id") == "a")
        assert [item["status"] for item in checked.items] == ["completed", "completed", "incomplete"]
        attached = await client.attach(run_id)
        assert (attached["state"]["state"], attached["state"]["open_calls"]) == ("cancelled", [])
        assert attached["state"]["terminal"] == {"status": "cancelled", "code": None, "by": "user:local"} or (
            attached["state"]["terminal"]["by"] == "user:local"
        )


async def test_a_cancel_at_any_moment_of_a_short_run_leaves_one_truthful_end() -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        await other.hello()
        for n in range(40):
            await client.create(input="word " * n)
            run_id = await started(client)
            reply = await other.command("antiphon:cancel", response_id=run_id)
            end = (await client.collect_run())[-1]["response"]
            if reply["result"] == "accepted":
                assert end["status"] == "cancelled"
            else:
                assert end["status"] == "completed"
            async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
                assert (await http.get(f"{server.url}/v1/responses/{run_id}")).json() == end
