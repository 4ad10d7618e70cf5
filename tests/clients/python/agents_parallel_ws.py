"""openai-agents over its WebSocket transport: three calls of one round, each run by the agent."""

import asyncio

from agents import Agent, RunConfig, Runner, function_tool
from agents.models.openai_provider import OpenAIProvider
from case import API_KEY, BASE_URL, WAIT_S, WEATHER, report

ASKED: list[str] = []


@function_tool(strict_mode=False)
def get_weather(city: str) -> str:
    """The weather of a city."""
    ASKED.append(city)
    return WEATHER


async def main() -> None:
    provider = OpenAIProvider(api_key=API_KEY, base_url=BASE_URL, use_responses_websocket=True)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    agent = Agent(name="parallel", model="antiphon/script:parallel", tools=[get_weather])
    async with asyncio.timeout(WAIT_S):
        result = await Runner.run(agent, "three?", run_config=config, auto_previous_response_id=True)
        await provider.aclose()
    report(asked=sorted(ASKED), answer=result.final_output)


asyncio.run(main())
