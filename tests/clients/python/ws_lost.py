"""openai-python, when the network takes its socket in mid-answer: it comes back over HTTP and misses nothing."""

import asyncio

from case import API_KEY, BASE_URL, WAIT_S, report
from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosedError


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    events = []
    async with asyncio.timeout(WAIT_S), client.responses.connect() as connection:
        await connection.response.create(model="antiphon/script:counting", input="go")
        try:
            while True:
                events.append(await connection.recv())
        except ConnectionClosedError as lost:
            code = lost.rcvd.code if lost.rcvd else None
        head = len(events)
        response_id = events[0].response.id
        status = (await client.responses.retrieve(response_id)).status
        tail = await client.responses.retrieve(response_id, stream=True, starting_after=events[-1].sequence_number)
        events += [event async for event in tail]
    report(runs=[events], head=head, code=code, status=status)


asyncio.run(main())
