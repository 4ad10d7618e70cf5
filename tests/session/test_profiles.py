"""Two profiles: `openai` runs a turn on each lane, `open-responses` one turn on each connection (PROTOCOL 4)."""

from __future__ import annotations

import asyncio

import pytest

from tests.session.play import connected, stub_settings
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, events_of_text

LANES = (None, "a", "b")


class Held:
    """A STUB that answers `witness` at once, and everything else when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    async def __call__(self, request: StubRequest, conn: StubConn) -> None:
        text = request.body["input"][-1]["content"]
        if text != "witness":
            self.asked.append(text)
            await self.may_answer.wait()
        conn.head()
        for event in events_of_text([text]):
            conn.sse(event)
        conn.end()


@pytest.mark.parametrize(("profile", "at_once"), [("openai", 3), ("open-responses", 1)])
async def test_a_connection_has_as_many_turns_in_flight_as_its_profile_says(profile: str, at_once: int) -> None:
    held = Held()
    async with StubUpstream(held) as stub, running_server(profile=profile, **stub_settings(stub)) as server:
        async with connected(server.ws_url) as client, connected(server.ws_url) as other:
            for lane in LANES:
                await client.create("stub-model", f"on {lane}", **({"stream_id": lane} if lane else {}))
            await stub.request(at_once - 1)
            # Another connection waits for nobody; what it has been through, the creates before it could have been.
            assert check_run(await other.run("stub-model", "witness")).text == "witness"
            assert len(held.asked) == at_once
            held.may_answer.set()
            for lane in LANES:
                assert check_run(await client.collect_run(lane), stream_id=lane).text == f"on {lane}"


async def test_turns_of_open_responses_come_in_the_order_of_their_creates_whole_one_by_one() -> None:
    async with running_server(profile="open-responses") as server, connected(server.ws_url) as client:
        for number in range(4):
            await client.create("antiphon/echo", f"turn {number}", stream_id=f"lane-{number % 2}")
        runs: list[str] = []
        while len(runs) < 4:
            event = await client.recv()
            if event["type"] == "response.created":
                runs.append(event["response"]["id"])
                open_run = event["stream_id"]
            assert event["stream_id"] == open_run, "an event of a turn that is not in flight"
        assert len(set(runs)) == 4
