"""openai-python through a long silence: keepalives on lanes and on a stream disturb neither router nor helper."""

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
SILENT = {"model": "antiphon/script:silent", "input": "go"}


async def turn(lane):
    await lane.send({"type": "response.create", **SILENT})
    accumulator, events = ResponsesWebSocketAccumulator(), []
    while not events or events[-1].type not in TERMINALS:
        events.append(await lane.recv())
        accumulator.add_event(events[-1])
    assert accumulator.snapshot().output_text == (await lane.get_final_response()).output_text == "before after"
    return events


async def streamed(client: AsyncOpenAI):
    async with client.responses.stream(**SILENT) as stream:
        kinds = [event.type async for event in stream]
        assert (await stream.get_final_response()).output_text == "before after"
    return kinds


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    async with (
        asyncio.timeout(WAIT_S),
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        named, default, helped = await asyncio.gather(
            turn(session.lane("named")), turn(session.default), streamed(client)
        )
        report(runs=[named, default], helped=helped)


asyncio.run(main())
