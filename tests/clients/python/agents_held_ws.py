"""openai-agents with held calls, against the advice of docs/clients.md: another client answers them, and then?"""

import asyncio

from agents import Agent, ModelSettings, RunConfig, Runner, function_tool
from agents.models.openai_provider import OpenAIProvider
from case import API_KEY, BASE_URL, WAIT_S, WEATHER, report
from openai import AsyncOpenAI

ASKED: list[str] = []
HOLD = {"antiphon": {"client_tools": "hold"}}


@function_tool(strict_mode=False)
def get_weather(city: str) -> str:
    """The weather of a city."""
    ASKED.append(city)
    return WEATHER


async def inject(response_id: str, call_ids: list[str]) -> str:
    """Answer the calls from a connection of its own; the type of the reply."""
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
    outputs = [{"type": "function_call_output", "call_id": call_id, "output": "injected"} for call_id in call_ids]
    async with client.beta.responses.connect() as connection:
        await connection.response.inject(response_id=response_id, input=outputs)
        return (await connection.recv()).type


async def main() -> None:
    provider = OpenAIProvider(api_key=API_KEY, base_url=BASE_URL, use_responses_websocket=True)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    settings = ModelSettings(extra_body=HOLD)
    agent = Agent(name="held", model="antiphon/script:parallel", tools=[get_weather], model_settings=settings)
    runs, call_ids, reply = [], [], ""
    async with asyncio.timeout(WAIT_S):
        streamed = Runner.run_streamed(agent, "three?", run_config=config)
        async for event in streamed.stream_events():
            if event.type != "raw_response_event":
                continue
            said = event.data
            if said.type == "response.created":
                runs.append(said.response.id)
            if said.type == "response.output_item.done" and said.item.type == "function_call":
                call_ids.append(said.item.call_id)
                if len(call_ids) == 3:
                    reply = await inject(runs[0], call_ids)
        await provider.aclose()
    report(reply=reply, calls=len(ASKED), runs=len(runs), answer=streamed.final_output)


asyncio.run(main())
