"""Stream an answer over WebSocket, lose the connection in mid-answer, come back and miss nothing.

    pip install "openai[realtime]"
    python examples/python/chat.py "Any question"

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
question = (
    " ".join(sys.argv[1:]) or "A run belongs to the server, so that it goes on when this connection is gone."
)

response_id, last, pieces = "", -1, []
with client.responses.connect() as connection:
    connection.response.create(model=model, input=question)
    for event in connection:
        if event.type == "error":
            sys.exit(f"refused: {event.error.message}")
        last = event.sequence_number
        if event.type == "response.created":
            response_id = event.response.id
        elif event.type == "response.output_text.delta":
            pieces.append(event.delta)
            print(event.delta, end="", flush=True)
            if len(pieces) == 4:
                break
        elif event.type in ("response.completed", "response.failed", "response.incomplete"):
            break

print(f"\n--- the connection is gone after event {last}; {response_id} goes on ---")

for event in client.responses.retrieve(response_id, stream=True, starting_after=last):
    assert event.sequence_number == last + 1, "an event is missing"
    last = event.sequence_number
    if event.type == "response.output_text.delta":
        pieces.append(event.delta)
        print(event.delta, end="", flush=True)

assert "".join(pieces) == client.responses.retrieve(response_id).output_text
print(f"\n--- whole: events 0 to {last}, none missing ---")
