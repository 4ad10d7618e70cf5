"""`generate: false`: an id to chain on, and nothing else (PROTOCOL 5.7; field issue P-10)."""

from __future__ import annotations

import pytest

from antiphon.journal.contract import RunLost
from antiphon.runs.run import Run
from tests.session.play import attach_all, connected, log_bytes, response_id, stub_settings
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, text

WARM = [{"role": "developer", "content": "Be brief."}]


@pytest.mark.parametrize("store", [True, False])
async def test_a_warm_up_costs_nothing_and_its_input_is_kept_for_everybody_who_chains(store: bool) -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        warm = await client.run("stub-model", WARM, generate=False, store=store)
        assert [e["type"] for e in warm] == ["response.created", "response.in_progress", "response.completed"]
        ended = warm[-1]["response"]
        assert (ended["output"], ended["status"], ended["usage"]["total_tokens"]) == ([], "completed", 0)
        assert stub.requests == []
        assert len(server.app.registry) == 0
        for turn in range(2):
            parent = response_id(warm)
            lane = {} if turn == 0 else {"stream_id": "again"}
            if turn == 1 and not store:
                await client.create("stub-model", "two", previous_response_id=parent, **lane)
                assert (await client.recv_error("again"))["error"]["code"] == "previous_response_not_found"
                continue
            check_run(
                await client.run("stub-model", f"turn {turn}", previous_response_id=parent, store=store, **lane)
            )
            sent = stub.requests[-1].body
            assert [item["content"] for item in sent["input"]] == ["Be brief.", f"turn {turn}"]
            assert "generate" not in sent


async def test_a_warm_up_in_mid_chain_adds_its_input() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = response_id(await client.run("stub-model", "one"))
        warm = response_id(await client.run("stub-model", WARM, generate=False, previous_response_id=first))
        await client.run("stub-model", "two", previous_response_id=warm)
        contents = [item["content"] for item in stub.requests[-1].body["input"] if item["role"] != "assistant"]
        assert contents == ["one", "Be brief.", "two"]
        assert len(stub.requests) == 2


async def test_an_empty_warm_up_is_legal() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        warm = response_id(await client.run(input=[], generate=False))
        assert check_run(await client.run(input="hi", previous_response_id=warm)).text == "hi"


@pytest.mark.parametrize("store", [True, False])
async def test_a_warm_up_has_a_log_and_a_truthful_state(store: bool) -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        warm = await client.run(input=WARM, generate=False, store=store)
        await other.hello()
        attached = await other.attach(response_id(warm))
        assert (attached["state"]["state"], attached["state"]["terminal"]["status"]) == ("completed", "completed")
        assert log_bytes(await other.collect_attachment(attached["stream_id"])) == log_bytes(warm)
        assert await attach_all(other, response_id(warm), after=0) == other.received[-4:-2]


async def test_a_warm_up_with_a_bad_model_or_parent_is_refused() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create("gpt-9", WARM, generate=False)
        assert (await client.recv_error())["error"]["code"] == "model_not_found"
        await client.create(input=WARM, generate=False, previous_response_id="resp_x")
        assert (await client.recv_error())["error"]["code"] == "previous_response_not_found"


async def test_a_warm_up_that_another_node_took_as_it_began_is_a_refusal_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_server() as server, connected(server.ws_url) as client:

        async def lost(run: Run) -> None:
            raise RunLost(run.id)

        with monkeypatch.context() as taken:
            taken.setattr(server.app.engine.supervisor, "finish_warm_up", lost)
            await client.create(input=[], generate=False)
            refused = await client.recv_error()
        assert (refused["status"], refused["error"]["code"]) == (503, "storage_unavailable")
        assert server.app.accounts.admission._live == {}
        assert (await client.run(input=[], generate=False))[-1]["type"] == "response.completed"
