"""A conversation whose runs are on several nodes (PROTOCOL 10.8)."""

from __future__ import annotations

from tests.session.play import connected, log_bytes, started, stub_settings
from tests.session.speaking import INSIDE, WHOLE, Speaker
from tests.session.test_conversation_attach import Pushes, attach
from tests.support.cluster import cluster
from tests.support.stub_upstream import StubUpstream


async def test_runs_that_begin_on_any_node_come_to_who_attached_to_their_conversation_on_another(
    postgres_url: str,
) -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with (
        StubUpstream(speaker) as stub,
        cluster(postgres_url, nodes=3, **stub_settings(stub)) as c,
        connected(c.a.ws_url) as owner,
        connected(c.b.ws_url) as second,
        connected(c.nodes[2].ws_url) as watcher,
    ):
        await watcher.hello()
        await owner.create("stub-model", "first", stream_id="a")
        first = await started(owner, "a")
        conversation = (await watcher.attach(first, after="now"))["state"]["conversation_id"]
        await watcher.command("antiphon:detach", response_id=first)
        pushes = Pushes(watcher)
        reply = await attach(watcher, conversation)
        assert [(state["response_id"], state["state"]) for state in reply["runs"]] == [(first, "running")]
        one = await pushes.next()
        assert one["response_id"] == first
        speaker.release()
        live = await owner.collect_run("a")
        assert log_bytes(await watcher.collect_attachment(one["stream_id"]))[1:] == log_bytes(live)
        for client in (owner, second):
            run = await client.run("stub-model", "next", stream_id="x", previous_response_id=first)
            come = await pushes.next()
            assert come["response_id"] == run[0]["response"]["id"]
            assert log_bytes(await watcher.collect_attachment(come["stream_id"])) == log_bytes(run)
