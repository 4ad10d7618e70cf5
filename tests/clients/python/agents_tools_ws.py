"""openai-agents over its WebSocket transport: a tool of the server beside the agent's own."""

import asyncio

from agents import Agent, HostedMCPTool, RunConfig, Runner, function_tool
from agents.models.openai_provider import OpenAIProvider
from case import API_KEY, BASE_URL, CLOCK_TOOL, WAIT_S, WEATHER, report

ASKED: list[str] = []
CLOCK = HostedMCPTool(tool_config=CLOCK_TOOL)


@function_tool(strict_mode=False)
def get_weather(city: str) -> str:
    """The weather of a city."""
    ASKED.append(city)
    return WEATHER


def kinds(result) -> list[str]:
    """What the agent got, in order: the types of its new items."""
    return [raw["type"] if isinstance(raw := item.raw_item, dict) else raw.type for item in result.new_items]


async def main() -> None:
    provider = OpenAIProvider(api_key=API_KEY, base_url=BASE_URL, use_responses_websocket=True)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    both = Agent(name="both", model="antiphon/script:server_tool", tools=[CLOCK, get_weather])
    async with asyncio.timeout(WAIT_S):
        full = await Runner.run(both, "time and weather?", run_config=config)
        chained = await Runner.run(both, "time and weather?", run_config=config, auto_previous_response_id=True)
        again = await Runner.run(
            both, [*full.to_input_list(), {"role": "user", "content": "again"}], run_config=config
        )
        streamed = Runner.run_streamed(both, "time and weather?", run_config=config)
        async for _ in streamed.stream_events():
            pass
        await provider.aclose()
    mixed = [full, chained, again, streamed]
    report(
        answers=[result.final_output for result in mixed],
        items=[kinds(result) for result in mixed],
        served=ASKED,
    )


asyncio.run(main())
