"""openai-python over HTTP with a tool of the server: the strict SSE helper, and the client's own call."""

from case import API_KEY, BASE_URL, CLOCK_TOOL, WAIT_S, WEATHER_TOOL, output_of, report, the_call
from openai import OpenAI

TOOLS = {"model": "antiphon/script:server_tool", "tools": [CLOCK_TOOL, WEATHER_TOOL]}


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    helped, snapshots = [], []
    with client.responses.stream(input="time and weather?", **TOOLS) as stream:
        helped += [event.type for event in stream]
        called = stream.get_final_response()
        snapshots.append([item.type for item in called.output])
    answer = {"input": [output_of(the_call(called.output))], "previous_response_id": called.id}
    with client.responses.stream(**answer, **TOOLS) as stream:
        helped += [event.type for event in stream]
        final = stream.get_final_response()
        snapshots.append([item.type for item in final.output])

    plain = list(client.responses.create(input="time and weather?", stream=True, **TOOLS))
    whole = client.responses.create(input="time and weather?", **TOOLS)
    (clock,) = [item for item in whole.output if item.type == "mcp_call"]
    report(runs=[plain], helped=helped, output=snapshots, answer=final.output_text, clock=clock.output)


main()
