"""openai-python, `connection.response.steer`: a successor on its lane, and a steer that waits for an output."""

import asyncio

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, WEATHER, WEATHER_TOOL, report
from openai import AsyncOpenAI
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits

LIMITS = ResponsesWebSocketLimits(
    max_lanes=16, max_events_per_lane=10_000, max_events=100_000, max_bytes_per_lane=2**26, max_bytes=2**28
)
NOTICES = ("response.steer.accepted", "response.steer.pending", "response.steer.failed")


async def until(lane, kinds, notices):
    """The events of the log up to one of these kinds; notices about steers go into their own list."""
    events = []
    while not events or events[-1].type not in kinds:
        event = await lane.recv()
        (notices if event.type in NOTICES else events).append(event)
    return events


async def followed(connection, lane):
    """Steer in the middle of the answer and read both responses."""
    notices = []
    await lane.send({"type": "response.create", "model": "antiphon/script:steerable", "input": "begin"})
    seen = await until(lane, ["response.output_text.delta"], notices)
    target = seen[0].response.id
    for said in ("shorter", [{"type": "message", "role": "user", "content": "and louder"}]):
        await connection.response.steer(previous_response_id=target, input=said)
    seen += await until(lane, TERMINALS, notices)
    successor = await until(lane, TERMINALS, notices)
    assert successor[0].response.previous_response_id == target
    return [seen, successor], notices


async def waited(connection, lane):
    """Steer a response that ends on a call: the create that answers the call brings the steer."""
    notices = []
    create = {"type": "response.create", "model": "antiphon/script:steerable_call", "tools": [WEATHER_TOOL]}
    await lane.send({**create, "input": "begin"})
    seen = await until(lane, ["response.output_text.delta"], notices)
    target = seen[0].response.id
    await connection.response.steer(previous_response_id=target, input="in Celsius")
    seen += await until(lane, TERMINALS, notices)
    while notices[-1].type != "response.steer.pending":
        notices.append(await lane.recv())
    outputs = [{**stub.to_dict(), "output": WEATHER} for stub in notices[-1].required_input]
    for output in outputs:
        output.pop("name")
    await lane.send({**create, "previous_response_id": target, "input": outputs})
    return [seen, await until(lane, TERMINALS, notices)], notices


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    async with (
        asyncio.timeout(WAIT_S),
        client.responses.connect(websocket_connection_options={"max_size": None}) as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        # The SDK builds its models with the first events, which takes longer than the answers below.
        await session.default.send({"type": "response.create", "model": "antiphon/echo", "input": "hello"})
        await until(session.default, TERMINALS, [])
        first, second = await asyncio.gather(
            followed(connection, session.lane("a")), waited(connection, session.lane("b"))
        )
        said = [
            [item.content[0].text for item in page.data if item.type == "message"]
            for run in (first[0][1], second[0][1])
            for page in [await client.responses.input_items.list(run[0].response.id, order="asc")]
        ]
        report(runs=first[0] + second[0], notices=[first[1], second[1]], said=said)


asyncio.run(main())
