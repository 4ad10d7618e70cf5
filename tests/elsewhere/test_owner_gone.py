"""A run whose owner is dead or silent: callers are told within seconds, and nothing is done twice."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest

from antiphon.core.held_calls import Sender
from antiphon.core.principal import LOCAL
from antiphon.errors import NodeGone, RequestError
from tests.elsewhere.two_nodes import Nodes, owns, two_nodes
from tests.http.calling import begin, error_of, http
from tests.http.calling import until as eventually
from tests.session.held import TOOLS, calling, hold, injected, output, send_inject, taken, waits
from tests.session.play import connected, response_id, until, words, write_script
from tests.session.test_steer import code_of, steer
from tests.support.ws_client import ws_client

LONG = words(3000, rate=100)


async def lose_owner(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is dead for the other node, and nobody has taken its runs."""

    async def gone(node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
        raise NodeGone(f"node {node} is gone")

    monkeypatch.setattr(nodes.there.app.engine.bus, "ask", gone)


async def test_callers_are_told_within_two_seconds_that_nobody_owns_the_run(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.there.ws_url) as other:
        held = {"client_tools": "hold"}
        run = await begin(nodes.here, model=calling(nodes.folder, 1), tools=TOOLS, antiphon=held)
        await until(lambda: nodes.here.app.registry.get(run).state == "waiting_for_tool", "the run to wait")
        await other.hello()
        await lose_owner(nodes, monkeypatch)
        began = time.monotonic()
        async with http(nodes.there) as client:
            answers = await asyncio.gather(
                client.post(f"/v1/responses/{run}/cancel"),
                client.post(f"/v1/responses/{run}/steer", json={"input": "more"}),
                client.post(f"/v1/responses/{run}/inject", json={"input": [output("call_1")]}),
                client.get(f"/v1/responses/{run}"),
            )
        assert time.monotonic() - began < 20
        for answer in answers:
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "owner_unavailable")
            assert answer.headers["retry-after"] == "1"
        reply = await other.command("antiphon:cancel", response_id=run)
        assert (reply["code"], reply["retryable"]) == ("owner_unavailable", True)
        await send_inject(other, run, [output("call_1")])
        failed = await injected(other)
        assert failed["error"]["code"] == "owner_unavailable"
        assert failed["sequence_number"] == nodes.here.app.registry.get(run).head
        assert code_of(await steer(other, run)) == "owner_unavailable"


async def test_a_caller_that_asks_while_the_run_changes_hands_is_answered_by_the_new_owner(
    postgres_url: str,
) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.here.ws_url) as owner:
        run = await hold(owner, calling(nodes.folder, 1))
        await waits(nodes.here, run)
        engine = nodes.here.app.engine
        engine.adopter.resting = True
        async with ws_client(nodes.here.ws_url) as other:
            handing = asyncio.create_task(engine.ownership.hand_over())
            await send_inject(other, run.id, [output(run.call_ids[0])])
            answer = await injected(other)
            await handing
            if answer["type"] == "response.inject.failed":  # told to come back, and then it works
                assert answer["error"]["code"] == "owner_unavailable"
                await until(lambda: owns(nodes.there, run.id), "the other node to take the run")
                await taken(other, run.id, output(run.call_ids[0]))
        assert (await owner.collect_run())[-1]["type"] == "response.completed"


async def test_a_local_run_that_may_be_anothers_by_now_is_not_touched(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres_url) as nodes:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]))

        async def never(run_log: Any) -> None:
            await asyncio.Event().wait()

        engine = nodes.here.app.engine
        with monkeypatch.context() as patch:
            patch.setattr(engine.journal, "may_act", never)
            with pytest.raises(NodeGone):
                await engine.reach.cancel(run, LOCAL)
            async with http(nodes.there) as client:
                answer = await client.post(f"/v1/responses/{run}/cancel")
            assert (answer.status_code, error_of(answer)["code"]) == (503, "owner_unavailable")
        own = engine.directory.own(run)
        assert own is not None and own.stop is None
        await engine.reach.cancel(run, LOCAL)


async def test_a_steer_that_is_sent_again_after_its_answer_was_lost_acts_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres_url) as nodes:
        held = {"client_tools": "hold"}
        run = await begin(nodes.here, model=calling(nodes.folder, 1), tools=TOOLS, antiphon=held)
        await until(lambda: nodes.here.app.registry.get(run).state == "waiting_for_tool", "the run to wait")
        engine, lost = nodes.there.app.engine, []
        ask = engine.bus.ask

        async def lossy(node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
            answer = await ask(node, kind, payload, timeout_s)
            if kind == "run.steer" and not lost:
                lost.append(answer)
                raise NodeGone("the answer was lost")
            return answer

        monkeypatch.setattr(engine.bus, "ask", lossy)
        steered = await engine.reach.steer(run, "more", LOCAL)
        own = nodes.here.app.engine.directory.own(run)
        assert own is not None and [one.id for one in own.steers] == [steered.steer_id]
        assert lost
        await engine.reach.cancel(run, LOCAL)


async def test_an_unstored_run_that_ended_is_known_by_its_log_when_its_owner_is_gone(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.here.ws_url) as owner:
        events = await owner.run("antiphon/echo", "hi", store=False)
        run = response_id(events)
        await lose_owner(nodes, monkeypatch)
        reach = nodes.there.app.engine.reach

        async def has_ended() -> bool:
            live = await nodes.there.app.engine.journal.find(run)
            return live is not None and live.ended

        await eventually(has_ended)
        assert await reach.cancel(run, LOCAL) == "already_terminal"
        assert orjson.loads(await reach.response(run, LOCAL)) == events[-1]["response"]
        with pytest.raises(RequestError) as refused:
            await reach.response(run, LOCAL, stored_only=True)
        assert refused.value.code == "response_not_found"
        with pytest.raises(RequestError) as refused:
            await reach.steer(run, "more", LOCAL)
        assert refused.value.code == "response_already_completed"
        late = await reach.inject(run, [output("call_1")], Sender("user:local", "conn_1"), LOCAL)
        assert late.error is not None and late.error.code == "response_already_completed"
