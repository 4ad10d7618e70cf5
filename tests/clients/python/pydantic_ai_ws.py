"""pydantic-ai over WebSocket: an agent with a tool, on the default lane and on lanes of its own."""

import asyncio

from case import API_KEY, BASE_URL, WAIT_S, WEATHER, report
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

SETTINGS = OpenAIResponsesModelSettings(openai_transport="websocket")


def weather_agent(asked: list[str], lanes: bool) -> Agent:
    model = OpenAIResponsesModel(
        "antiphon/demo",
        provider=OpenAIProvider(base_url=BASE_URL, api_key=API_KEY),
        profile=OpenAIModelProfile(
            openai_responses_supports_websocket=True, openai_responses_supports_websocket_stream_id=lanes
        ),
        settings=SETTINGS,
    )
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str = "Oslo") -> str:
        """The weather of a city."""
        asked.append(city)
        return WEATHER

    return agent


async def main() -> None:
    asked: list[str] = []
    answers = []
    async with asyncio.timeout(WAIT_S):
        plain = weather_agent(asked, lanes=False)
        async with plain:
            answers.append((await plain.run("weather?")).output)
        laned = weather_agent(asked, lanes=True)
        async with laned:
            results = await asyncio.gather(*(laned.run(f"weather {number}?") for number in range(3)))
            answers += [result.output for result in results]
    report(answers=answers, calls=len(asked))


asyncio.run(main())
