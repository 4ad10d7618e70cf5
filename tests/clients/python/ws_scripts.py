"""openai-python's accumulator against scripted runs: every kind of item, parallel calls, a failure midway."""

from case import API_KEY, BASE_URL, TERMINALS, WAIT_S, WEATHER, WEATHER_TOOL, report
from openai import OpenAI
from openai.lib.responses_websocket import (
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)

LIMITS = ResponsesWebSocketLimits(
    max_lanes=16, max_events_per_lane=10_000, max_events=100_000, max_bytes_per_lane=2**26, max_bytes=2**28
)
TOOLS = [WEATHER_TOOL, {"type": "custom", "name": "apply_patch", "description": "Edits files."}]


def turn(lane, script, **create):
    """One turn; what the SDK projected from the events alone must be the terminal's output."""
    lane.send({"type": "response.create", "model": f"antiphon/script:{script}", "tools": TOOLS, **create})
    accumulator, before_terminal = ResponsesWebSocketAccumulator(), None
    events = []
    while not events or events[-1].type not in TERMINALS:
        event = lane.recv(timeout=WAIT_S)
        if event.type in TERMINALS:
            before_terminal = accumulator.detailed_snapshot()["output"]
        accumulator.add_event(event)
        events.append(event)
    after = accumulator.detailed_snapshot()["output"]
    if events[-1].type == "response.failed":  # an item that was cut is `incomplete` only in the terminal
        for row in before_terminal:
            row["item"]["status"] = row["item"]["status"].replace("in_progress", "incomplete")
    assert before_terminal == after, f"projected: {before_terminal}\nterminal: {after}"
    return events, accumulator.snapshot(), lane.get_final_response(timeout=WAIT_S)


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)
    with (
        client.responses.connect(websocket_connection_options={"max_size": None}) as connection,
        ResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lane = session.lane("mixed")
        mixed, snapshot, response = turn(lane, "mixed", input="go")
        calls = [item for item in response.output if item.type in ("function_call", "custom_tool_call")]
        outputs = [
            {"type": f"{call.type.removesuffix('_call')}_call_output", "call_id": call.call_id, "output": WEATHER}
            for call in calls
        ]
        answered, _, _ = turn(lane, "mixed", input=outputs, previous_response_id=response.id)
        failed, broken, after = turn(session.default, "breaks", input="go")
        report(
            runs=[mixed, answered, failed],
            projected=[item.type for item in snapshot.output],
            arguments=[item.arguments or item.input for item in snapshot.output if item.call_id],
            failed_with=after.error.code,
            kept_text=broken.output_text,
        )


main()
