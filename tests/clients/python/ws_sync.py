"""openai-python, sync `responses.connect()`: a turn, a tool round trip, a refusal the socket survives."""

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, WEATHER_TOOL, output_of, report, the_call
from openai import OpenAI
from openai.resources.responses.responses import ResponsesConnection


def run(connection: ResponsesConnection, **create):
    connection.response.create(**create)
    events = []
    for event in connection:
        events.append(event)
        if event.type in (*TERMINALS, "error"):
            return events
    raise AssertionError("the iterator ended without a terminal event")


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    with client.responses.connect() as connection:
        plain = run(connection, model="antiphon/echo", input="the quick brown fox")
        assert plain[-1].response.output_text == "the quick brown fox", plain[-1]

        tool = {"model": "antiphon/demo", "tools": [WEATHER_TOOL], "store": False}
        called = run(connection, input="weather?", **tool)
        call = the_call(called[-1].response.output)
        answered = run(connection, input=[output_of(call)], previous_response_id=called[-1].response.id, **tool)

        missing = "resp_00000000000000000000000000000000"
        refused = run(connection, model="antiphon/echo", input="x", previous_response_id=missing)
        assert refused[-1].type == "error", refused
        again = run(connection, model="antiphon/echo", input="still here")
        report(runs=[plain, called, answered, again], refused=refused, answer=answered[-1].response.output_text)


main()
