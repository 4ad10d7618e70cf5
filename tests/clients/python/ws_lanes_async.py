"""openai-python's own lane router and accumulator, async: five lanes at once on one socket, each whole."""

import asyncio

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, report
from openai import AsyncOpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketLimits,
)

LIMITS = ResponsesWebSocketLimits(
    max_lanes=16, max_events_per_lane=10_000, max_events=100_000, max_bytes_per_lane=2**26, max_bytes=2**28
)


async def turn(lane, stream_id, text):
    """One turn on one lane: what the SDK projects from the events must be what the terminal says."""
    await lane.send({"type": "response.create", "model": "antiphon/echo", "input": text})
    accumulator = ResponsesWebSocketAccumulator()
    events = []
    while not events or events[-1].type not in TERMINALS:
        event = await lane.recv()
        assert getattr(event, "stream_id", None) == stream_id, event
        accumulator.add_event(event)
        events.append(event)
        if event.type == "response.output_item.done":
            assert accumulator.snapshot().output_text == text, accumulator.snapshot()
    final = await lane.get_final_response()
    raw = accumulator.get_final_response()
    assert [item.id for item in raw.output] == [item.id for item in final.output]
    assert accumulator.snapshot().output_text == raw.output_text == final.output_text == text
    return events


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    options = {"max_size": None}
    async with (
        asyncio.timeout(WAIT_S),
        client.responses.connect(websocket_connection_options=options) as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lanes = {name: session.lane(name) for name in ("a", "b.2", "c_3", "d-4")} | {None: session.default}
        runs = []
        for text in ("first turn on every lane", "second turn"):
            turns = [turn(lane, name, f"{text} {name}") for name, lane in lanes.items()]
            runs += await asyncio.gather(*turns)
        report(runs=runs)


asyncio.run(main())
