"""openai-python over HTTP: the strict SSE helper, a plain stream, a JSON answer, a tool round trip, the models."""

from case import API_KEY, BASE_URL, WAIT_S, WEATHER_TOOL, output_of, report, the_call
from openai import OpenAI


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    helped = []
    with client.responses.stream(model="antiphon/echo", input="streamed by the helper") as stream:
        helped += [event.type for event in stream]
        assert stream.get_final_response().output_text == "streamed by the helper"

    plain = list(client.responses.create(model="antiphon/echo", input="streamed plainly", stream=True))
    assert plain[-1].response.output_text == "streamed plainly", plain[-1]

    whole = client.responses.create(model="antiphon/echo", input="in one piece")
    assert (whole.status, whole.output_text) == ("completed", "in one piece"), whole
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens, whole.usage

    tool = {"model": "antiphon/demo", "tools": [WEATHER_TOOL]}
    called = client.responses.create(input="weather?", **tool)
    call = the_call(called.output)
    answered = client.responses.create(input=[output_of(call)], previous_response_id=called.id, **tool)

    with client.responses.stream(input="weather?", **tool) as stream:
        helped += [event.type for event in stream]
        the_call(stream.get_final_response().output)

    models = [model.id for model in client.models.list()]
    assert {"antiphon/echo", "antiphon/demo"} <= set(models), models
    report(runs=[plain], helped=helped, answer=answered.output_text, models=models)


main()
