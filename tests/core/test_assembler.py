"""Whatever an upstream sends, the log keeps every promise; whatever it says plainly, the log says."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import cancelled
from antiphon.core.assembly.reading import SplitText, mend
from tests.core.runs import check_log, drive, kinds, new_assembler, run
from tests.core.upstream_streams import (
    ERRORS,
    NOISE,
    Stream,
    cut,
    encode,
    halves,
    spoilt,
    streams,
    terminal,
)

Event = dict[str, Any]


def added(index: int, **item: Any) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text(delta: str, index: Any = 0, item_id: Any = "m", **rest: Any) -> Event:
    return {
        "type": "response.output_text.delta",
        "output_index": index,
        "item_id": item_id,
        "delta": delta,
        **rest,
    }


def arguments(delta: str, index: int = 0, item_id: str = "f") -> Event:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": index, "item_id": item_id, "delta": delta}


def message(said: str, item_id: str = "m", **rest: Any) -> Event:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": item_id, "role": "assistant", "content": [part], **rest}


def call(name: str = "f", item_id: str = "f", call_id: str = "c", said: str = "{}", **rest: Any) -> Event:
    return {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": said, **rest}


COMPLETED = terminal("completed", [])


# Everything at once


@settings(max_examples=200)
@given(spoilt())
def test_any_stream_gives_a_log_that_keeps_every_promise(raw: list[bytes]) -> None:
    _, log = drive(raw)
    check_log(log)


@settings(max_examples=60)
@given(spoilt(), st.integers(0, 30))
def test_a_cancel_at_any_point_gives_a_log_that_keeps_every_promise(raw: list[bytes], at: int) -> None:
    _, log = drive(raw[:at], cancelled("user:anna"))
    check_log(log)


def _plain(item: Event) -> Event:
    """An item without what is ours to choose."""
    return {
        k: v
        for k, v in item.items()
        if k not in ("id", "call_id") and not (k == "status" and item["type"] == "reasoning")
    }


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda mixed: streams(interleaved=mixed)), st.data())
def test_a_correct_stream_comes_out_with_the_same_items(stream: Stream, data: st.DataObject) -> None:
    listed = data.draw(st.sampled_from([None, [], stream.output]))
    _, log = drive([*map(encode, stream.events), encode(terminal("completed", listed))])
    assert [_plain(item) for item in check_log(log).items] == [_plain(item) for item in stream.output]


@settings(max_examples=60)
@given(streams(), st.sampled_from(["streamed", "only listed", "whole", "done only"]))
def test_the_same_items_come_out_however_much_of_them_was_streamed(stream: Stream, way: str) -> None:
    last = terminal("completed", stream.output)
    events = {
        "streamed": stream.events,
        "only listed": [],
        "whole": [],
        "done only": [e for e in stream.events if e["type"] == "response.output_item.done"],
    }[way]
    if way == "whole":
        last = {"type": "antiphon.whole_response", "response": last["response"]}
    _, log = drive([*map(encode, events), encode(last)])
    assert [_plain(item) for item in check_log(log).items] == [_plain(item) for item in stream.output]


@settings(max_examples=60)
@given(streams(), st.data())
def test_the_terminal_brings_items_that_the_stream_left_out_wherever_they_stood(
    stream: Stream, data: st.DataObject
) -> None:
    missing = data.draw(st.sets(st.integers(0, 3)))
    events = [event for event in stream.events if _index_of(event) not in missing]
    checked = run([*map(encode, events), encode(terminal("completed", stream.output))])
    assert sorted(map(_as_text, checked.items)) == sorted(map(_as_text, stream.output))


def _as_text(item: Event) -> bytes:
    return orjson.dumps(_plain(item), option=orjson.OPT_SORT_KEYS)


def _index_of(event: Event) -> int:
    index: int = event["output_index"]
    return index


# Numbers and failure


@pytest.mark.parametrize("raw", NOISE)
def test_one_unusable_event_costs_nothing_but_itself(raw: bytes) -> None:
    assert run([text("a"), raw, text("b"), COMPLETED]).text in ("ab", "azb")


def test_log_probabilities_of_a_wrong_type_leave_no_hole() -> None:
    assert (
        run([text("a", logprobs=5), text("b", logprobs=[1]), text("c", logprobs=[{"token": 1}]), COMPLETED]).text
        == "abc"
    )


def test_log_probabilities_arrive_with_every_field_clients_require() -> None:
    _, log = drive(
        [text("a", logprobs=[{"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b"}]}]), COMPLETED]
    )
    delta = next(orjson.loads(event) for event in log if b"text.delta" in event)
    assert delta["logprobs"] == [{"token": "a", "logprob": -0.5, "bytes": [], "top_logprobs": []}]
    assert check_log(log).items[0]["content"][0]["logprobs"] == delta["logprobs"]


def deep_item(depth: int) -> bytes:
    nested = b"[" * depth + b"]" * depth
    return b'{"type":"response.output_item.done","output_index":0,"item":{"type":"x","y":' + nested + b"}}"


@pytest.mark.parametrize("depth", [130, 254, 900])
def test_what_is_nested_too_deep_in_an_event_is_cut_off_and_the_run_goes_on(depth: int) -> None:
    assembler, log = drive([deep_item(depth), text("a", 1), COMPLETED])
    checked = check_log(log)
    assert checked.text == "a"
    assert [item["type"] for item in checked.items] == ["x", "message"]
    assert assembler.dropped == 0


def test_an_event_no_parser_can_hold_is_dropped_and_the_run_goes_on() -> None:
    assembler, log = drive([deep_item(100_000), text("a", 1), COMPLETED])
    assert check_log(log).text == "a"
    assert assembler.dropped == 1


def test_a_terminal_with_an_item_nested_too_deep_still_ends_the_run() -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    checked = run([text("a"), terminal("completed", [{"type": "x", "y": deep}, message("a")])])
    assert checked.terminal is not None and checked.terminal["status"] == "completed"
    assert [item["type"] for item in checked.items] == ["message", "x"]


def test_nothing_follows_the_upstreams_last_word() -> None:
    assembler, _ = drive([text("a"), COMPLETED])
    assert assembler.feed([encode(text("b"))]) == []


@pytest.mark.parametrize("error", ERRORS)
def test_every_shape_of_an_error_fails_the_run_with_a_code_and_a_message(error: Event) -> None:
    checked = run([text("a"), error])
    assert checked.terminal is not None
    assert checked.terminal["error"]["code"] in ("overloaded", "upstream_error")
    assert checked.terminal["error"]["message"]


def test_a_failed_run_keeps_what_was_said_as_an_incomplete_item() -> None:
    checked = run([text("half"), terminal("failed")])
    assert checked.terminal is not None
    assert checked.terminal["error"] == {"code": "rate_limit_exceeded", "message": "Too fast."}
    assert checked.terminal["output"][0]["status"] == "incomplete"
    assert checked.terminal["output"][0]["content"][0]["text"] == "half"


def test_the_usage_of_the_upstream_is_in_the_terminal_with_every_field() -> None:
    checked = run([COMPLETED])
    assert checked.terminal is not None
    assert checked.terminal["usage"]["total_tokens"] == 7


# Items


def test_a_text_without_any_announcement_becomes_a_message_of_the_assistant() -> None:
    checked = run([text("Hel"), text("lo"), COMPLETED])
    assert checked.items[0]["role"] == "assistant"
    assert checked.text == "Hello"


def test_texts_without_index_and_id_belong_to_the_item_that_is_open() -> None:
    checked = run([text("Hel", None, None), text("lo", None, None), COMPLETED])
    assert len(checked.items) == 1
    assert checked.text == "Hello"


def test_text_after_its_item_was_done_is_dropped_not_made_an_item() -> None:
    checked = run([added(0, **message("")), text("a"), done(0, **message("a")), text("late"), COMPLETED])
    assert [item["content"][0]["text"] for item in checked.items] == ["a"]


def test_text_for_an_item_of_another_kind_gets_an_item_of_its_own() -> None:
    checked = run([added(0, **call(said="")), text("a", 0, "f"), arguments("{}"), COMPLETED])
    assert [item["type"] for item in checked.items] == ["function_call", "message"]
    assert checked.items[0]["arguments"] == "{}"


def test_an_item_announced_twice_or_done_twice_is_there_once() -> None:
    twice = [added(0, **message("")), text("a"), done(0, **message("a"))]
    assert run([twice[0], *twice, twice[2], twice[0], COMPLETED]).text == "a"


def test_an_announcement_that_comes_after_the_first_text_does_not_make_a_second_item() -> None:
    checked = run([text("a"), added(0, **message("")), text("b"), done(0, **message("ab")), COMPLETED])
    assert checked.text == "ab"
    assert len(checked.items) == 1


def test_constant_ids_do_not_merge_items() -> None:
    one, two = message("one", "x"), message("two", "x")
    checked = run(
        [
            added(0, **one),
            added(1, **two),
            text("one", 0, "x"),
            text("two", 1, "x"),
            done(0, **one),
            done(1, **two),
            COMPLETED,
        ]
    )
    assert [item["content"][0]["text"] for item in checked.items] == ["one", "two"]


def test_constant_ids_of_calls_give_each_call_an_id_of_its_own() -> None:
    same = [call("f", "x", "x", '{"n":1}'), call("f", "x", "x", '{"n":2}')]
    assembler, log = drive([done(0, **same[0]), done(1, **same[1]), terminal("completed", same)])
    calls = check_log(log).calls
    assert [item["arguments"] for item in calls] == ['{"n":1}', '{"n":2}']
    assert len({item["call_id"] for item in calls} | {item["id"] for item in calls}) == 4
    assert [item.upstream["call_id"] for item in assembler.items] == ["x", "x"]


def test_a_constant_index_does_not_merge_items_with_ids_of_their_own() -> None:
    events = [
        added(0, **call("f", "a", said="")),
        added(0, **call("g", "b", said="")),
        arguments("1", 0, "a"),
        arguments("2", 0, "b"),
        COMPLETED,
    ]
    assert [(item["name"], item["arguments"]) for item in run(events).calls] == [("f", "1"), ("g", "2")]


def test_arguments_that_come_before_their_call_wait_for_its_name() -> None:
    checked = run([arguments('{"a'), added(0, **call(said="")), arguments('":1}'), COMPLETED])
    assert checked.calls[0]["arguments"] == '{"a":1}'
    assert checked.calls[0]["name"] == "f"


def test_a_call_announced_without_its_name_is_shown_when_the_name_is_known() -> None:
    _, log = drive([added(0, type="function_call", id="f"), arguments("{}"), done(0, **call()), COMPLETED])
    assert check_log(log).calls[0]["name"] == "f"


def test_a_call_that_never_gets_a_name_can_still_be_refused_by_the_client() -> None:
    assert run([done(0, type="function_call", id="f", arguments="{}"), COMPLETED]).calls[0]["name"] == "unknown"


def test_arguments_of_a_call_nobody_ever_named_are_not_shown() -> None:
    assert run([arguments("{}"), COMPLETED]).items == []


def test_arguments_are_passed_on_to_the_letter() -> None:
    said = '{"id":9007199254740993, "n":18446744073709551616,"x":1.0}'
    assert run([done(0, **call(said=said)), COMPLETED]).calls[0]["arguments"] == said


def test_what_was_announced_of_an_item_stays_when_it_is_done_otherwise() -> None:
    events = [added(0, **call("f", said="")), done(0, **call("other")), COMPLETED]
    assert run(events).calls[0]["name"] == "f"


def test_an_item_of_an_unknown_kind_is_passed_on_with_our_id() -> None:
    checked = run([done(0, type="hologram", id="up", beam={"width": 2}), COMPLETED])
    assert checked.items == [{"id": "item_1", "type": "hologram", "beam": {"width": 2}}]


@pytest.mark.parametrize("item", [None, 5, "x", [], {}, {"type": None}, {"type": 5}, {"type": ""}])
def test_something_that_is_no_item_is_dropped(item: Any) -> None:
    event = {"type": "response.output_item.done", "output_index": 0, "item": item}
    assert run([event, text("a", 1), COMPLETED]).text == "a"


def test_empty_fields_of_an_item_are_left_out() -> None:
    events = [done(0, type="reasoning", id="r", summary=[], encrypted_content=None, content=None), COMPLETED]
    assert run(events).items == [{"id": "rs_1", "type": "reasoning", "summary": [], "status": "completed"}]


def test_an_item_that_failed_says_so_only_if_its_kind_can() -> None:
    events = [
        done(0, **message("a", status="failed")),
        done(1, type="web_search_call", id="w", action={}, status="failed"),
        COMPLETED,
    ]
    assert [item["status"] for item in run(events).items] == ["incomplete", "failed"]


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"type": "image_generation_call", "id": "i"}, "failed"),
        (
            {"type": "apply_patch_call", "id": "p", "operation": {"type": "delete_file", "path": "a"}},
            "in_progress",
        ),
        ({"type": "shell_call", "id": "s", "action": {"commands": ["ls"]}}, "incomplete"),
        ({"type": "code_interpreter_call", "id": "c", "container_id": "k"}, "incomplete"),
        ({"type": "mcp_call", "id": "c", "server_label": "k", "name": "n"}, "incomplete"),
    ],
)
def test_an_item_cut_by_a_cancel_ends_in_the_words_of_its_kind(item: Event, status: str) -> None:
    checked = run([added(0, **item)], cancelled("user:anna"))
    assert checked.items[0]["status"] == status


def test_an_output_in_the_same_response_names_our_id_of_its_call() -> None:
    output = {"type": "shell_call_output", "id": "o", "call_id": "c", "output": [], "status": "completed"}
    shell = {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": []}, "status": "completed"}
    items = run([done(0, **shell), done(1, **output), COMPLETED]).items
    assert items[0]["call_id"] == items[1]["call_id"] == "call_1" or items[0]["call_id"] == items[1]["call_id"]
    assert items[0]["call_id"] != "c"


# Texts and parts


def test_text_that_only_the_done_event_has_becomes_one_more_delta() -> None:
    _, log = drive([text("Hel"), {**text(""), "type": "response.output_text.done", "text": "Hello"}, COMPLETED])
    assert check_log(log).text == "Hello"
    assert [orjson.loads(event)["delta"] for event in log if b"text.delta" in event] == ["Hel", "lo"]


def test_text_that_was_shown_wins_over_a_done_event_that_contradicts_it() -> None:
    assert (
        run([text("shown"), {**text(""), "type": "response.output_text.done", "text": "else"}, COMPLETED]).text
        == "shown"
    )


def test_deltas_after_the_done_of_their_text_are_dropped() -> None:
    assembler, log = drive(
        [text("a"), {**text(""), "type": "response.output_text.done", "text": "a"}, text("b"), COMPLETED]
    )
    assert check_log(log).text == "a"
    assert assembler.dropped == 1


def test_parts_get_dense_indices_whatever_the_upstream_numbers_them() -> None:
    events = [text("a", content_index=3), text("b", content_index=-1), text("c", content_index="x"), COMPLETED]
    parts = run(events).items[0]["content"]
    assert [part["text"] for part in parts] == ["a", "b", "c"]


def test_a_part_numbered_otherwise_in_the_item_is_not_shown_twice() -> None:
    events = [added(0, **message("")), text("a", content_index=1), done(0, **message("a")), COMPLETED]
    assert run(events).text == "a"


def test_a_refusal_at_the_index_of_a_text_is_a_part_of_its_own() -> None:
    refusal = {
        "type": "response.refusal.delta",
        "output_index": 0,
        "item_id": "m",
        "content_index": 0,
        "delta": "no",
    }
    parts = run([text("a", content_index=0), refusal, text("b", content_index=0), COMPLETED]).items[0]["content"]
    assert [(part["type"], part.get("text", part.get("refusal"))) for part in parts] == [
        ("output_text", "ab"),
        ("refusal", "no"),
    ]


def test_annotations_that_come_with_the_finished_part_are_kept() -> None:
    citation = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    at = {"output_index": 0, "item_id": "m", "content_index": 0}
    whole = {"type": "output_text", "text": "a", "annotations": [citation]}
    events = [
        text("a", content_index=0),
        {"type": "response.output_text.done", **at, "text": "a"},
        {"type": "response.content_part.done", **at, "part": whole},
        COMPLETED,
    ]
    assert run(events).items[0]["content"][0]["annotations"] == [citation]


def test_annotations_are_numbered_by_us_and_broken_ones_dropped() -> None:
    note = {
        "type": "response.output_text.annotation.added",
        "output_index": 0,
        "item_id": "m",
        "annotation_index": 9,
    }
    good = {"type": "file_path", "file_id": "f", "index": 0}
    _, log = drive([text("a"), *({**note, "annotation": a} for a in (None, 5, {}, good, good)), COMPLETED])
    events = [orjson.loads(event) for event in log]
    assert [e["annotation_index"] for e in events if "annotation_index" in e] == [0, 1]
    assert check_log(log).items[0]["content"][0]["annotations"] == [good, good]


def test_parts_of_kinds_that_do_not_stream_are_kept_behind_the_others() -> None:
    audio = {"type": "output_audio", "data": "UklG"}
    item = message("a")
    item["content"].insert(0, audio)
    _, log = drive([done(0, **item), COMPLETED])
    output = orjson.loads(log[-1])["response"]["output"]
    assert [part["type"] for part in output[0]["content"]] == ["output_text", "output_audio"]


def test_events_of_the_whole_response_are_passed_without_an_item() -> None:
    _, log = drive([{"type": "response.audio.delta", "delta": "UklG", "response_id": "up"}, COMPLETED])
    check_log(log)
    assert orjson.loads(log[2]) == {"type": "response.audio.delta", "sequence_number": 2, "delta": "UklG"}


def test_events_of_hosted_tools_are_passed_with_our_ids() -> None:
    item = {"type": "web_search_call", "id": "up", "action": {"type": "search"}, "status": "in_progress"}
    state = {
        "type": "response.web_search_call.searching",
        "item_id": "up",
        "output_index": 0,
        "sequence_number": 99,
    }
    _, log = drive([added(0, **item), state, COMPLETED])
    check_log(log)
    assert orjson.loads(log[3]) == {**state, "sequence_number": 3, "item_id": "ws_1"}


def test_no_id_of_the_upstream_is_shown_for_items_and_calls() -> None:
    stream = [added(0, **call("f", "UPSTREAM", "UPSTREAM", "")), arguments("{}", 0, "UPSTREAM"), COMPLETED]
    _, log = drive(stream)
    assert not any(b"UPSTREAM" in event for event in log)


# Surrogates


SPLIT_TEXTS: dict[str, tuple[str, str, Event]] = {
    "text": ("response.output_text", "text", {}),
    "refusal": ("response.refusal", "refusal", {}),
    "reasoning": ("response.reasoning_text", "text", {}),
    "summary": ("response.reasoning_summary_text", "text", {}),
    "arguments": ("response.function_call_arguments", "arguments", call(said="")),
    "input": ("response.custom_tool_call_input", "input", {"type": "custom_tool_call", "id": "f", "name": "f"}),
}


@pytest.mark.parametrize("kind", SPLIT_TEXTS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_text_cut_inside_a_character_comes_out_whole(kind: str, data: st.DataObject) -> None:
    name, field, item = SPLIT_TEXTS[kind]
    whole = data.draw(st.text(st.sampled_from("aö\U0001f600\U0001f44d\u4e2d"), min_size=1, max_size=6))
    at = {"output_index": 0, "item_id": "f"}
    events = [added(0, **item)] if item else []
    events += [{"type": f"{name}.delta", **at, "delta": piece} for piece in cut(data.draw, whole)]
    events += [{"type": f"{name}.done", **at, field: whole}] if data.draw(st.booleans()) else []
    _, log = drive([*map(encode, events), encode(COMPLETED)])
    check_log(log)
    deltas = [orjson.loads(event)["delta"] for event in log if b'.delta"' in event]
    assert "".join(deltas) == whole


def test_half_a_character_at_the_end_becomes_a_replacement_character() -> None:
    assert run([encode(text("a\ud83d")), COMPLETED]).text == "a\ufffd"


def test_a_done_event_completes_half_a_character() -> None:
    finished = {**text(""), "type": "response.output_text.done", "text": "a\U0001f600b"}
    assert run([encode(text("a\ud83d")), encode(finished), COMPLETED]).text == "a\U0001f600b"


@given(st.lists(st.text(st.characters(categories=["Cs", "Lu", "So"]), max_size=4), max_size=5))
def test_split_texts_never_show_a_surrogate_and_never_lose_a_character(pieces: list[str]) -> None:
    split = SplitText()
    shown = "".join([*map(split.add, pieces), split.finish()])
    assert shown == split.text
    assert shown == mend("".join(pieces))
    shown.encode()


def test_halves_put_together_give_the_text_again() -> None:
    assert mend("".join(halves("a\U0001f600"))) == "a\U0001f600"


# Snapshots


def test_a_snapshot_has_what_was_said_so_far() -> None:
    assembler = new_assembler()
    assembler.feed([encode(text("Hel"))])
    snapshot = orjson.loads(assembler.snapshot())
    assert snapshot["status"] == "in_progress"
    assert snapshot["output"][0]["content"][0]["text"] == "Hel"


def test_the_order_of_a_plain_answer_is_the_order_of_the_protocol() -> None:
    at = {"output_index": 0, "item_id": "m", "content_index": 0}
    events = item_events_of("Hi")
    _, log = drive([*events, COMPLETED])
    assert at and kinds(log) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def item_events_of(said: str) -> list[Event]:
    at = {"output_index": 0, "item_id": "m", "content_index": 0}
    part = {"type": "output_text", "text": said, "annotations": []}
    return [
        added(0, **{**message(""), "content": []}),
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        text(said, content_index=0),
        {"type": "response.output_text.done", **at, "text": said},
        {"type": "response.content_part.done", **at, "part": part},
        done(0, **message(said)),
    ]
