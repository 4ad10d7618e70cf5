"""openai-agents in a conversation: as its session over the items API, and by its id, with a tool of the agent."""

import asyncio

from agents import Agent, OpenAIConversationsSession, RunConfig, Runner, function_tool
from agents.models.openai_provider import OpenAIProvider
from case import API_KEY, BASE_URL, WAIT_S, WEATHER, report
from openai import AsyncOpenAI


@function_tool(strict_mode=False)
def get_weather(city: str) -> str:
    """The weather of a city."""
    return WEATHER


async def kinds(client: AsyncOpenAI, conversation_id: str) -> list[str]:
    return [item.type async for item in client.conversations.items.list(conversation_id, order="asc")]


async def main() -> None:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S)
    provider = OpenAIProvider(openai_client=client, use_responses=True)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    agent = Agent(name="weather", model="antiphon/demo", tools=[get_weather])
    async with asyncio.timeout(2 * WAIT_S):
        session = OpenAIConversationsSession(openai_client=client)
        kept = [
            (await Runner.run(agent, "What is the weather?", session=session, run_config=config)).final_output
            for _ in range(2)
        ]
        of_session = await kinds(client, session.session_id)
        await session.pop_item()
        await session.clear_session()

        made = await client.conversations.create()
        named = [
            (
                await Runner.run(agent, "What is the weather?", conversation_id=made.id, run_config=config)
            ).final_output
            for _ in range(2)
        ]
        of_name = await kinds(client, made.id)
    report(answers=kept + named, of_session=of_session, of_name=of_name)


asyncio.run(main())
