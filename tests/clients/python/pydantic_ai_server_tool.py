"""pydantic-ai over WebSocket with a tool of the server beside one of its own, in two runs of one conversation."""

import asyncio

from case import API_KEY, BASE_URL, CLOCK_TOOL, WAIT_S, WEATHER, report
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

SETTINGS = OpenAIResponsesModelSettings(openai_transport="websocket", openai_native_tools=[CLOCK_TOOL])


async def main() -> None:
    asked: list[str] = []
    model = OpenAIResponsesModel(
        "antiphon/script:server_tool",
        provider=OpenAIProvider(base_url=BASE_URL, api_key=API_KEY),
        profile=OpenAIModelProfile(openai_responses_supports_websocket=True),
        settings=SETTINGS,
    )
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return WEATHER

    async with asyncio.timeout(WAIT_S), agent:
        first = await agent.run("time and weather?")
        second = await agent.run("and now?", message_history=first.all_messages())
    parts = [part for message in first.new_messages() for part in message.parts]
    returned = [part.content for part in parts if part.part_kind == "builtin-tool-return"]
    clock = [content["output"] for content in returned if "output" in content]
    report(answers=[first.output, second.output], calls=len(asked), clock=clock)


asyncio.run(main())
