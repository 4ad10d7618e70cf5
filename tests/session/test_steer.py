"""Steering by the client that started the run (PROTOCOL 7.3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.errors import RequestError
from tests.http.calling import get
from tests.session.play import connected, response_id, started, stub_settings, until, words, write_script
from tests.session.speaking import AFTER, BEFORE, INSIDE, INSIDE_AND_AFTER, WHOLE, Speaker
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, events_of_text
from tests.support.ws_client import TERMINALS, Event, WsClient, ws_client

TWO_CALLS = [("look", '{"n": 0}'), ("look", '{"n": 1}')]
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


@contextlib.asynccontextmanager
async def speaking(
    speaker: Any, api_key: str = "test", **settings: Any
) -> AsyncIterator[tuple[RunningServer, WsClient]]:
    """A server in front of the speaker, and a judged client."""
    async with (
        StubUpstream(speaker) as stub,
        running_server(**stub_settings(stub), **settings) as server,
        connected(server.ws_url, api_key=api_key) as client,
    ):
        yield server, client


async def steer(
    client: WsClient, target: str, input: Any = "more", lane: str | None = None, **extra: Any
) -> Event:
    """Steer; gives the answer."""
    await client.send({"type": "response.steer", "previous_response_id": target, "input": input, **extra})
    return await answer(client, lane)


async def answer(client: WsClient, lane: str | None = None) -> Event:
    """The next notice about a steer on the lane."""
    return (await client.recv_until(lambda e: e["type"].startswith("response.steer."), stream_id=lane))[-1]


async def turn(client: WsClient, lane: str | None = None) -> list[Event]:
    """The events of the next run on the lane; notices beside its log are left out."""
    events = await client.collect_run(lane)
    log = [event for event in events if not event["type"].startswith("response.steer.")]
    check_run(log)
    return log


def code_of(notice: Event) -> str:
    assert notice["type"] == "response.steer.failed", notice.raw
    return str(notice["error"]["code"])


def reason_of(event: Event) -> tuple[str, Any]:
    details = event["response"]["incomplete_details"]
    return event["response"]["status"], details["reason"] if details else None


async def test_a_run_that_has_not_begun_an_item_ends_at_once_and_is_followed_on_its_lane() -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(speaker) as (server, client):
        wishes = {"temperature": 0.5, "instructions": "Be brief.", "tools": [TOOL], "metadata": {"a": "b"}}
        await client.create("stub-model", "first", stream_id="a", **wishes)
        target = await started(client, "a")
        await until(lambda: bool(speaker.inputs), "the model call")
        accepted = await steer(client, target, "second", "a")
        assert accepted["type"] == "response.steer.accepted"
        assert accepted["steer"]["previous_response_id"] == target
        assert re.fullmatch(r"steer_[0-9a-f]{32}", accepted["steer"]["id"])
        assert accepted["sequence_number"] == 1
        end = (await client.recv_until(lambda e: e["type"] in TERMINALS, stream_id="a"))[-1]
        assert (reason_of(end), end["response"]["output"]) == (("incomplete", "steered"), [])
        follows = await turn(client, "a")
        asked = follows[0]["response"]
        assert asked["previous_response_id"] == target
        assert (asked["temperature"], asked["instructions"], asked["metadata"]) == (0.5, "Be brief.", {"a": "b"})
        assert asked["tools"][0]["name"] == "look"
        assert follows[-1]["type"] == "response.completed"
        assert speaker.said_by_user() == ["first", "second"]
        state = server.app.registry.get(target)
        assert state.terminal == {"status": "incomplete", "code": "steered", "by": None, "successor": asked["id"]}
        row = {"id": accepted["steer"]["id"], "stage": "applied", "principal": "user:local"}
        assert state.steers == [row]


async def test_an_item_in_progress_is_finished_first() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        assert (await steer(client, response_id(seen), "second"))["type"] == "response.steer.accepted"
        speaker.release()
        log = seen + await client.collect_run()
        check_run(log)
        item = log[-1]["response"]["output"][0]
        assert (item["status"], item["content"][0]["text"]) == ("completed", "answer 1 goes on")
        await turn(client)
        assert speaker.said_by_user() == ["first", "second"]
        assert [i["content"][0]["text"] for i in speaker.inputs[1] if i.get("role") == "assistant"] == [
            "answer 1 goes on"
        ]


async def test_a_steer_that_came_inside_an_item_ends_the_run_behind_it() -> None:
    """The model would go on; nobody waits for that."""
    speaker = Speaker(INSIDE_AND_AFTER, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        await steer(client, response_id(seen))
        speaker.release()
        end = seen + await client.collect_run()
        assert reason_of(end[-1]) == ("incomplete", "steered")
        assert end[-1]["response"]["output"][0]["content"][0]["text"] == "answer 1 goes on"
        await turn(client)


async def test_after_a_finished_item_the_rest_is_not_waited_for() -> None:
    speaker = Speaker(AFTER, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_item.done")
        await steer(client, response_id(seen))
        end = seen + await client.collect_run()
        assert reason_of(end[-1]) == ("incomplete", "steered")
        assert end[-1]["response"]["output"] == [seen[-1]["item"]]
        await turn(client)


async def test_what_was_said_while_an_item_went_on_is_one_input_in_its_order() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first", store=False)
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
        file = {"type": "input_file", "file_id": "file_1"}
        parts = [{"role": "user", "content": [{"type": "input_text", "text": "look"}, picture, file]}]
        for said in ("one", parts, "three"):
            assert (await steer(client, response_id(seen), said))["type"] == "response.steer.accepted"
        speaker.release()
        await client.collect_run()
        follows = await turn(client)
        assert speaker.said_by_user() == ["first", "one", parts[0]["content"], "three"]
        await client.create("stub-model", "next", previous_response_id=response_id(follows), store=False)
        await turn(client)
        assert speaker.said_by_user() == ["first", "one", parts[0]["content"], "three", "next"]


async def test_the_successor_comes_before_creates_that_wait_on_the_lane() -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first", stream_id="a")
        await client.create("stub-model", "queued", stream_id="a")
        target = await started(client, "a")
        await until(lambda: bool(speaker.inputs), "the model call")
        await steer(client, target, "second", "a")
        runs = [await client.collect_run("a") for _ in range(3)]
        parents = [run[0]["response"]["previous_response_id"] for run in runs[1:]]
        assert parents == [target, None]
        assert [speaker.said_by_user(n) for n in range(3)] == [["first"], ["first", "second"], ["queued"]]


async def test_a_successor_can_be_steered_as_well() -> None:
    speaker = Speaker(BEFORE, BEFORE, BEFORE, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "0")
        previous = None
        for n in range(1, 4):
            target = await started(client)
            await until(lambda n=n: len(speaker.inputs) == n, "the model call")  # type: ignore[misc]
            await steer(client, target, str(n))
            end = await client.collect_run()
            assert end[-1]["response"]["previous_response_id"] == previous
            previous = target
        assert (await turn(client))[-1]["type"] == "response.completed"
        assert speaker.said_by_user() == ["0", "1", "2", "3"]


def outputs(*ids: str) -> list[dict[str, Any]]:
    return [{"type": "function_call_output", "call_id": call_id, "output": "4"} for call_id in ids]


async def calling(client: WsClient, **fields: Any) -> tuple[str, list[str]]:
    """Begin a run on lane `a` that makes two calls and does not end yet: its id, the calls' ids."""
    await client.create("stub-model", "first", stream_id="a", tools=[TOOL], **fields)
    seen: list[Event] = []
    for _ in range(2):
        seen += await client.recv_until(lambda e: e["type"] == "response.output_item.done", stream_id="a")
    ids = [e["item"]["call_id"] for e in seen if e["type"] == "response.output_item.done"]
    return response_id(seen), ids


@pytest.mark.parametrize("store", [True, False])
async def test_open_calls_make_a_steer_pending_and_the_create_that_answers_them_brings_it(store: bool) -> None:
    speaker = Speaker(TWO_CALLS, WHOLE)
    async with speaking(speaker) as (server, client):
        target, ids = await calling(client, store=store)
        for said in ("one", "two"):
            assert (await steer(client, target, said, "a"))["type"] == "response.steer.accepted"
        speaker.release()
        end = (await client.recv_until(lambda e: e["type"] in TERMINALS, stream_id="a"))[-1]
        assert end["type"] == "response.completed"
        notices = [await answer(client, "a") for _ in range(2)]
        for notice in notices:
            assert (notice["type"], notice["reason"]) == ("response.steer.pending", "waiting_for_required_input")
            assert notice["sequence_number"] == end["sequence_number"]
            assert notice["required_input"] == [
                {"type": "function_call_output", "call_id": call_id, "name": "look"} for call_id in ids
            ]
        assert len({notice["steer"]["id"] for notice in notices}) == 2
        assert [row["stage"] for row in server.app.registry.get(target).steers] == ["pending"] * 2

        parent = {"previous_response_id": target, "store": store}
        await client.create("stub-model", outputs(*ids), stream_id="fork", **parent)
        await turn(client, "fork")
        assert speaker.said_by_user() == ["first"]
        if store:  # an unstored parent is gone after a refusal
            await client.create("stub-model", outputs(ids[0]), stream_id="a", **parent)
            assert (await client.recv_error("a"))["error"]["code"] == "tool_output_missing"
        answered = [*outputs(*ids), {"role": "user", "content": "three"}]
        await client.create("stub-model", answered, stream_id="a", temperature=0.25, **parent)
        log = await turn(client, "a")
        assert log[0]["response"]["temperature"] == 0.25
        assert speaker.said_by_user() == ["first", "one", "two", "three"]
        kinds = [item.get("type", "message") for item in speaker.inputs[-1]]
        assert kinds[-5:] == ["message", "message", "function_call_output", "function_call_output", "message"]
        assert [row["stage"] for row in server.app.registry.get(target).steers] == ["applied"] * 2
        if store:
            await client.create("stub-model", outputs(*ids), stream_id="a", **parent)
            await turn(client, "a")
            assert speaker.said_by_user() == ["first"], "each steer is heard once"


async def test_a_warm_up_takes_no_pending_steer() -> None:
    speaker = Speaker(TWO_CALLS, WHOLE)
    async with speaking(speaker) as (_, client):
        target, ids = await calling(client)
        await steer(client, target, "one", "a")
        speaker.release()
        await client.collect_run("a")
        assert (await answer(client, "a"))["type"] == "response.steer.pending"
        parent = {"previous_response_id": target, "stream_id": "a"}
        await client.run("stub-model", outputs(*ids), generate=False, **parent)
        await client.create("stub-model", outputs(*ids), **parent)
        await turn(client, "a")
        assert speaker.said_by_user() == ["first", "one"]


async def test_a_create_that_waits_already_takes_the_pending_steers_with_it() -> None:
    speaker = Speaker(TWO_CALLS, WHOLE)
    async with speaking(speaker) as (_, client):
        target, ids = await calling(client)
        await client.create("stub-model", outputs(*ids), stream_id="a", previous_response_id=target)
        await steer(client, target, "one", "a")
        speaker.release()
        assert (await client.collect_run("a"))[-1]["type"] == "response.completed"
        await turn(client, "a")
        assert speaker.said_by_user() == ["first", "one"]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"input": ""}, "invalid_input"),
        ({"input": []}, "invalid_input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "invalid_input"),
        ({"input": [1, None]}, "invalid_input"),
        ({"input": outputs("call_1")}, "invalid_input"),
        ({"input": "x", "stream_id": "a"}, "invalid_input"),
        ({"input": "x", "metadata": {}}, "invalid_input"),
        ({"input": "x", "previous_response_id": "resp_unknown"}, "response_not_found"),
    ],
)
async def test_a_steer_that_cannot_be_taken_is_handed_back_and_the_target_goes_on(
    frame: dict[str, Any], code: str
) -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first", stream_id="a")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="a")
        whole = {"type": "response.steer", "previous_response_id": response_id(seen), **frame}
        await client.send(whole)
        lane = "a" if code == "invalid_input" else None
        failed = await answer(client, lane)
        assert code_of(failed) == code
        assert failed["error"]["type"] == "invalid_request_error"
        assert failed["steer"] == {k: whole[k] for k in ("previous_response_id", "input")}
        assert failed["sequence_number"] == (seen[-1]["sequence_number"] if lane else 0)
        speaker.release()
        assert reason_of((seen + await client.collect_run("a"))[-1]) == ("completed", None)


async def test_the_33rd_steer_is_refused_and_32_are_heard() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (_, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        for n in range(32):
            await steer(client, response_id(seen), f"{n}")
        assert code_of(await steer(client, response_id(seen), "one too many")) == "too_many_pending_steers"
        speaker.release()
        await client.collect_run()
        await turn(client)
        assert speaker.said_by_user() == ["first", *map(str, range(32))]


async def test_what_has_ended_cannot_be_steered_and_says_how_it_ended() -> None:
    speaker = Speaker(WHOLE)
    async with speaking(speaker) as (server, client):
        for store in (True, False):
            ended = await client.run("stub-model", store=store)
            failed = await steer(client, response_id(ended))
            assert code_of(failed) == "response_already_completed"
            assert failed["sequence_number"] == ended[-1]["sequence_number"]
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        await client.create(slow)
        target = await started(client)
        await client.send({"type": "response.cancel", "response_id": target})
        await client.collect_run()
        assert code_of(await steer(client, target)) == "response_not_active"
        broken = write_script(server.data_dir, "broken", [{"error": {"code": "server_error", "message": "x"}}])
        assert code_of(await steer(client, response_id(await client.run(broken)))) == "response_not_active"
        warm = await client.run("stub-model", generate=False)
        assert code_of(await steer(client, response_id(warm))) == "response_already_completed"


async def test_an_accepted_steer_comes_back_when_its_target_is_cancelled() -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (server, client):
        await client.create("stub-model", "first", stream_id="a")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="a")
        target = response_id(seen)
        accepted = await steer(client, target, "lost?", "a")
        await client.send({"type": "response.cancel", "response_id": target})
        end = (await client.recv_until(lambda e: e["type"] in TERMINALS, stream_id="a"))[-1]
        failed = await answer(client, "a")
        assert code_of(failed) == "response_not_active"
        assert failed["steer"] == {**accepted["steer"], "input": "lost?"}
        assert failed["sequence_number"] == end["sequence_number"]
        state = server.app.registry.get(target)
        assert [row["stage"] for row in state.steers] == ["failed"]
        assert state.terminal is not None and "successor" not in state.terminal


async def test_a_shutdown_refuses_steers_and_hands_back_those_it_had_taken() -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (server, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        target = response_id(seen)
        accepted = await steer(client, target, "before")
        server.app.engine.service.draining = True
        assert code_of(await steer(client, target, "after")) == "successor_creation_failed"
        speaker.release()
        assert (await client.collect_run())[-1]["type"] in ("response.completed", "response.incomplete")
        failed = await answer(client)
        assert (code_of(failed), failed["steer"]["input"]) == ("successor_creation_failed", "before")
        assert failed["steer"]["id"] == accepted["steer"]["id"]
        assert len(speaker.inputs) == 1


async def test_a_successor_that_cannot_be_started_hands_the_input_back_and_frees_the_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*args: Any, **fields: Any) -> None:
        raise RequestError("No upstream serves this model any more.", code="model_not_found")

    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (server, client):
        await client.create("stub-model", "first", stream_id="a")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="a")
        target = response_id(seen)
        await steer(client, target, "second", "a")
        monkeypatch.setattr(server.app.engine.service, "start", refuse)
        speaker.release()
        await client.collect_run("a")
        failed = await answer(client, "a")
        assert (code_of(failed), failed["steer"]["input"]) == ("successor_creation_failed", "second")
        state = server.app.registry.get(target)
        assert state.terminal is not None and "successor" not in state.terminal
        monkeypatch.undo()
        assert (await client.run("stub-model", "on", stream_id="a"))[-1]["type"] == "response.completed"


async def test_an_upstream_that_fails_after_a_steer_hands_it_back() -> None:
    go = asyncio.Event()

    async def breaks(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in events_of_text(["half a "])[:5]:
            conn.sse(event)
        async with asyncio.timeout(40):
            await go.wait()
        conn.reset()

    async with speaking(breaks) as (_, client):
        await client.create("stub-model", "first")
        seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
        accepted = await steer(client, response_id(seen), "second")
        go.set()
        assert (await client.collect_run())[-1]["type"] == "response.failed"
        failed = await answer(client)
        assert code_of(failed) == "response_not_active"
        assert failed["steer"] == {**accepted["steer"], "input": "second"}


async def test_no_turn_is_lost_or_heard_twice_whenever_a_steer_comes() -> None:
    """Twelve lanes, each steered at random moments: what was accepted stands once in its chain, in its order."""
    dice = random.Random(7)
    async with (
        StubUpstream(several_items) as stub,
        running_server(**stub_settings(stub)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(ws_client(server.ws_url)) for _ in range(6)]
        delays = [[dice.random() * 0.08 for _ in range(8)] for _ in range(12)]
        lanes = [SteeredLane(clients[n % 6], f"l{n}", delays[n]) for n in range(12)]
        async with asyncio.TaskGroup() as tasks:
            for lane in lanes:
                tasks.create_task(lane.play("stub-model"))
        for lane in lanes:
            assert await said_in_chain(server, lane.newest) == ["begin", *lane.accepted], lane.name
        assert sum(len(lane.ended) for lane in lanes) > len(lanes), "too few successors to prove anything"


async def several_items(request: StubRequest, conn: StubConn) -> None:
    """Six messages with a pause inside and after each."""
    events = [json.loads(event) for event in events_of_text(["a ", "b "])]
    conn.head()
    conn.sse(events[0])
    for index in range(6):
        for event in events[1:-1]:
            if "output_index" in event:
                named = {key: {**event[key], "id": f"m{index}"} for key in ("item",) if key in event}
                conn.sse({**event, **named, "output_index": index, "item_id": f"m{index}"})
                if event["type"] in ("response.output_text.delta", "response.output_item.done"):
                    await asyncio.sleep(0.005)
        if conn.gone.is_set():
            return
    done = [{**events[-1]["response"]["output"][0], "id": f"m{index}"} for index in range(6)]
    conn.sse({**events[-1], "response": {**events[-1]["response"], "output": done}})
    conn.end()


class SteeredLane:
    """Steers the newest run of a lane after each delay, and reads on until nothing follows any more."""

    def __init__(self, client: WsClient, name: str, delays: list[float]) -> None:
        self.name = name
        self.newest = ""
        self.ended: set[str] = set()
        self.accepted: list[str] = []
        self._client = client
        self._delays = delays
        self._targets: set[str] = set()

    async def play(self, model: str) -> None:
        await self._client.create(model, "begin", stream_id=self.name)
        while not self.newest:
            await self._read()
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number, delay in enumerate(self._delays):
            due += delay
            while loop.time() < due:
                with contextlib.suppress(AssertionError):  # nothing came in time
                    await self._read(due - loop.time())
            await self._steer(f"said {number}")
        while self.newest not in self.ended or self.newest in self._targets:
            await self._read()

    async def _steer(self, said: str) -> None:
        target = self.newest
        await self._client.send({"type": "response.steer", "previous_response_id": target, "input": said})
        while not (notice := await self._read())["type"].startswith("response.steer."):
            pass
        if notice["type"] == "response.steer.accepted":
            self.accepted.append(said)
            self._targets.add(target)
        else:
            assert code_of(notice) in ("response_already_completed", "response_not_active"), notice.raw

    async def _read(self, wait_s: float = 40.0) -> Event:
        event = await self._client.recv_on(self.name, wait_s)
        if event["type"] == "response.created":
            self.newest = event["response"]["id"]
        elif event["type"] in TERMINALS:
            self.ended.add(event["response"]["id"])
        return event


async def said_in_chain(server: RunningServer, newest: str) -> list[str]:
    """The texts of the inputs of a chain, oldest first."""
    said: list[str] = []
    current: str | None = newest
    while current is not None:
        path = f"/v1/responses/{current}"
        items = (await get(server, f"{path}/input_items", order="desc", limit="100")).json()["data"]
        said += [item["content"][0]["text"] for item in items]
        current = (await get(server, path)).json()["previous_response_id"]
    return said[::-1]
