"""openai-python's beta connection, unmodified, answers a run that another connection created and holds."""

from case import API_KEY, BASE_URL, CLOCK_TOOL, TERMINALS, WAIT_S, WEATHER_TOOL, output_of, report
from openai import OpenAI

HELD = {
    "model": "antiphon/script:server_tool",
    "tools": [WEATHER_TOOL, CLOCK_TOOL],
    "antiphon": {"client_tools": "hold"},
}


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    events, replies = [], []
    with client.responses.connect() as creator, client.beta.responses.connect() as other:
        creator.send({"type": "response.create", "input": "weather?", **HELD})
        for event in creator:
            events.append(event)
            if event.type == "response.output_item.done" and event.item.type == "function_call":
                for _ in range(2):
                    answer = {"response_id": events[0].response.id, "input": [output_of(event.item)]}
                    other.response.inject(**answer)
                    replies.append(other.recv())
            if event.type in TERMINALS:
                break
    with client.beta.responses.connect() as late:
        late.response.inject(**answer)
        replies.append(late.recv())
    report(
        runs=[events],
        replies=replies,
        items=[item.type for item in events[-1].response.output],
        answer=events[-1].response.output_text,
    )


main()
