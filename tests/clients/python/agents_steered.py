"""openai-agents over its WebSocket transport, with a tool, while others try to steer its runs."""

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
    agent = Agent(name="weather", model="antiphon/script:steerable_call", tools=[get_weather])
    async with asyncio.timeout(WAIT_S):
        first = await Runner.run(agent, "weather?", run_config=config, auto_previous_response_id=True)
        second = await Runner.run(
            agent, "and now?", run_config=config, previous_response_id=first.last_response_id
        )
        await provider.aclose()
    report(answers=[first.final_output, second.final_output], calls=len(ASKED))


asyncio.run(main())
