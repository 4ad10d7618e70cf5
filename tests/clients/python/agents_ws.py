"""openai-agents over its WebSocket transport: an agent calls a function tool and answers with its result."""

import asyncio

from agents import Agent, RunConfig, Runner, function_tool
from agents.models.openai_provider import OpenAIProvider
from case import API_KEY, BASE_URL, WAIT_S, WEATHER, report

ASKED: list[str] = []


@function_tool(strict_mode=False)
def get_weather(city: str = "Oslo") -> str:
    """The weather of a city."""
    ASKED.append(city)
    return WEATHER


async def main() -> None:
    provider = OpenAIProvider(api_key=API_KEY, base_url=BASE_URL, use_responses_websocket=True)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    agent = Agent(name="weather", instructions="Be brief.", model="antiphon/demo", tools=[get_weather])
    async with asyncio.timeout(WAIT_S):
        full_input = await Runner.run(agent, "weather?", run_config=config)
        chained = await Runner.run(agent, "weather?", run_config=config, auto_previous_response_id=True)
        streamed = Runner.run_streamed(agent, "weather?", run_config=config)
        kinds = [event.type async for event in streamed.stream_events()]
        await provider.aclose()
    report(
        answers=[full_input.final_output, chained.final_output, streamed.final_output],
        calls=len(ASKED),
        streamed_raw_events=kinds.count("raw_response_event"),
    )


asyncio.run(main())
