"""openai-python, async `responses.connect()`: turns, a tool round trip and a warm-up whose input is kept."""

import asyncio

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, WEATHER_TOOL, output_of, report, the_call
from openai import AsyncOpenAI
from openai.resources.responses.responses import AsyncResponsesConnection


async def run(connection: AsyncResponsesConnection, **create):
    await connection.response.create(**create)
    events = []
    async for event in connection:
        assert event.type != "error", event
        events.append(event)
        if event.type in TERMINALS:
            return events
    raise AssertionError("the iterator ended without a terminal event")


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL + "/", api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    async with asyncio.timeout(WAIT_S), client.responses.connect() as connection:
        first = await run(connection, model="antiphon/echo", input=[{"role": "user", "content": "one two"}])
        chained = await run(
            connection, model="antiphon/echo", input="three", previous_response_id=first[-1].response.id
        )
        assert chained[-1].response.previous_response_id == first[-1].response.id

        tool = {"model": "antiphon/demo", "tools": [WEATHER_TOOL]}
        called = await run(connection, input="weather?", **tool)
        call = the_call(called[-1].response.output)
        answered = await run(
            connection, input=[output_of(call)], previous_response_id=called[-1].response.id, **tool
        )

        warm = await run(connection, model="antiphon/echo", input="kept by the warm-up", generate=False)
        assert warm[-1].response.output == [], warm[-1]
        after = await run(connection, model="antiphon/echo", input=[], previous_response_id=warm[-1].response.id)
        assert after[-1].response.output_text == "kept by the warm-up", after[-1]
        report(
            runs=[first, chained, called, answered, warm, after],
            answer=answered[-1].response.output_text,
        )


asyncio.run(main())
