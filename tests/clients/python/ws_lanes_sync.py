"""openai-python's lane router, sync: a tool round trip forks over to another lane; a lane's error stays there."""

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, WEATHER_TOOL, output_of, report, the_call
from openai import OpenAI
from openai.lib.responses_websocket import (
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)

LIMITS = ResponsesWebSocketLimits(
    max_lanes=16, max_events_per_lane=10_000, max_events=100_000, max_bytes_per_lane=2**26, max_bytes=2**28
)


def turn(lane, **create):
    lane.send({"type": "response.create", **create})
    accumulator = ResponsesWebSocketAccumulator()
    events = []
    while not events or events[-1].type not in TERMINALS:
        events.append(lane.recv(timeout=WAIT_S))
        accumulator.add_event(events[-1])
    projected = accumulator.detailed_snapshot()["output"]
    final = lane.get_final_response(timeout=WAIT_S)
    assert [row["item"]["id"] for row in projected] == [item.id for item in final.output], projected
    assert accumulator.snapshot().output_text == final.output_text
    return events, final


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    with (
        client.responses.connect(websocket_connection_options={"max_size": None}) as connection,
        ResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        main_lane, fork = session.lane("main"), session.lane("fork")
        tool = {"model": "antiphon/demo", "tools": [WEATHER_TOOL]}
        asked, called = turn(main_lane, input="weather?", **tool)
        call = the_call(called.output)
        answer = {"input": [output_of(call)], "previous_response_id": called.id, **tool}
        forked, _ = turn(fork, **answer)
        answered, final = turn(main_lane, **answer)

        fork.send({"type": "response.create", "model": "no/such-model", "input": "x"})
        try:
            fork.get_final_response(timeout=WAIT_S)
        except ResponsesWebSocketError as error:
            refused = [error.event]
        else:
            raise AssertionError("an unknown model was answered")
        report(runs=[asked, forked, answered], refused=refused, answer=final.output_text)


main()
