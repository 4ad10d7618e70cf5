"""A run that waits for a tool, and another process that answers. In one terminal, then in another:

    pip install "openai[realtime]"
    python examples/python/held_tool.py
    python examples/python/held_tool.py answer resp_... "Yes, in both pages"

The first creates the run and watches it. The second was not there when the run began: it reads the run from its
first event, answers the call it finds, and sees the same end.

ANTIPHON_URL points elsewhere than http://127.0.0.1:8787/v1, ANTIPHON_API_KEY brings a key, ANTIPHON_MODEL a model.
"""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("ANTIPHON_URL", "http://127.0.0.1:8787/v1"),
    api_key=os.environ.get("ANTIPHON_API_KEY", "any"),
)
model = os.environ.get("ANTIPHON_MODEL", "antiphon/demo")
ASK_EDITOR = {
    "type": "function",
    "name": "ask_editor",
    "description": "Asks the editor on duty, who answers with a sentence.",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
}
HOLD = {"client_tools": "hold", "deadline_s": 600}


def show(event):
    """Print what a run says; the call if this event completes one."""
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
    if event.type != "response.output_item.done":
        return None
    if event.item.type == "function_call_output":
        print(f"\n--- {event.item.call_id} was answered: {event.item.output} ---", flush=True)
    return event.item if event.item.type == "function_call" else None


def create():
    """Start the run and watch it to its end."""
    with client.responses.stream(
        model=model,
        input="Ask the editor whether we print it.",
        tools=[ASK_EDITOR],
        extra_body={"antiphon": HOLD},
    ) as events:
        for event in events:
            if event.type == "response.created":
                print(f"--- {event.response.id} ---", flush=True)
            if call := show(event):
                print(f"\n--- waits for {call.name}({call.arguments}) ---", flush=True)


def answer(response_id, text):
    """Find the call of a run, answer it, and go on watching."""
    for event in client.responses.retrieve(response_id, stream=True):
        if call := show(event):
            output = {"type": "function_call_output", "call_id": call.call_id, "output": text}
            with client.beta.responses.connect() as connection:
                connection.response.inject(response_id=response_id, input=[output])
                print(f"\n--- {connection.recv().type} ---", flush=True)


if sys.argv[1:2] == ["answer"]:
    answer(*sys.argv[2:])
else:
    create()
