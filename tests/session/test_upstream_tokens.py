"""A caller's own credential reaches its own run's upstream and nothing else (PROTOCOL 3.2.3)."""

from __future__ import annotations

import asyncio

import httpx2

from tests.session.play import attach_all, connected, response_id, stub_settings
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, text


async def test_concurrent_runs_each_reach_the_upstream_with_their_own_token() -> None:
    async with (
        StubUpstream(text(10, rate=50)) as stub,
        running_server(**stub_settings(stub, key="ours", caller_key=True)) as server,
        connected(server.ws_url) as one,
        connected(server.ws_url) as two,
        httpx2.AsyncClient(timeout=10, trust_env=False) as http,
    ):
        await asyncio.gather(
            *(
                client.create(
                    "stub-model",
                    f"{who} {n}",
                    stream_id=f"l{n}",
                    antiphon={"upstream_authorization": f"{who}-{n}"},
                )
                for who, client in (("alice", one), ("bob", two))
                for n in range(8)
            )
        )
        runs = [await client.collect_run(f"l{n}") for client in (one, two) for n in range(8)]
        headers = {"X-Upstream-Authorization": "Basic Y2Fyb2w6"}
        body = {"model": "stub-model", "input": "carol", "stream": False}
        assert (await http.post(f"{server.url}/v1/responses", json=body, headers=headers)).status_code == 200
        await one.run("stub-model", "nobody")
        sent = {request.body["input"][-1]["content"]: request for request in stub.requests}
        for who in ("alice", "bob"):
            for n in range(8):
                assert sent[f"{who} {n}"].authorization == f"Bearer {who}-{n}"
        assert sent["carol"].authorization == "Basic Y2Fyb2w6"
        assert sent["nobody"].authorization == "Bearer ours"
        assert all("antiphon" not in request.body for request in stub.requests)
        await one.hello()
        shown = [e.raw for events in runs for e in events]
        shown += [e.raw for e in await attach_all(one, response_id(runs[0]))]
        shown.append((await http.get(f"{server.url}/v1/responses/{response_id(runs[0])}")).text)
        assert not [raw for raw in shown if "alice-" in raw or "bob-" in raw]
        await server.server.app.backends.journal.aclose()
        for file in server.data_dir.glob("antiphon.db*"):
            assert b"alice-" not in file.read_bytes()


async def test_a_token_for_an_upstream_that_takes_none_is_refused_and_never_sent() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub, key="ours")) as server,
        connected(server.ws_url) as client,
    ):
        for model in ("stub-model", "antiphon/echo"):
            await client.create(model, antiphon={"upstream_authorization": "secret-token"})
            refused = await client.recv_error()
            assert (refused["status"], refused["error"]["param"]) == (400, "antiphon.upstream_authorization")
            assert "secret-token" not in refused.raw
        assert stub.requests == []
