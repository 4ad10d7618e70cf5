"""An agent loop over WebSocket: the model calls a function of ours, we run it, the model answers with its result.

    pip install "openai[realtime]"
    python examples/python/tools.py "What is the weather in Oslo?"

ANTIPHON_URL points elsewhere than http://127.0.0.1:8787/v1, ANTIPHON_API_KEY brings a key, ANTIPHON_MODEL a model.
"""

import json
import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("ANTIPHON_URL", "http://127.0.0.1:8787/v1"),
    api_key=os.environ.get("ANTIPHON_API_KEY", "any"),
)
model = os.environ.get("ANTIPHON_MODEL", "antiphon/demo")
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


def get_weather(city: str = "Oslo") -> str:
    return f"7 degrees and drizzle in {city}"


def turn(connection, **create):
    """One response: print its text as it comes, return it when it is over."""
    connection.response.create(model=model, tools=TOOLS, **create)
    for event in connection:
        if event.type == "error":
            sys.exit(f"refused: {event.error.message}")
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
        if event.type in ("response.completed", "response.failed", "response.incomplete"):
            return event.response
    raise SystemExit("the connection was closed in mid-answer")


with client.responses.connect() as connection:
    response = turn(connection, input=" ".join(sys.argv[1:]) or "What is the weather in Oslo?")
    while calls := [item for item in response.output if item.type == "function_call"]:
        outputs = []
        for call in calls:
            result = get_weather(**json.loads(call.arguments or "{}"))
            print(f"\n--- {call.name}({call.arguments}) = {result!r} ---")
            outputs.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
        response = turn(connection, input=outputs, previous_response_id=response.id)
    print(f"\n--- {response.id} is {response.status} ---")
