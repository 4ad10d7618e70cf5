"""When the model's turns go round in a loop: 4 warn, 5 and 6 force, 7 halt, all within a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from antiphon.core.history import Turn
from antiphon.core.loop_detection import (
    LoopLimits,
    Recent,
    Repeat,
    observe,
    rebuilt,
    signature,
    signatures,
    verdict,
)
from antiphon.settings.loop import DetectionSettings

LIMITS = LoopLimits()
ANSWER = "I looked, and there is nothing new to tell."
OTHER = "Here is something quite different from before."


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(name: str, arguments: str, call_id: str = "c") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def after(turns: Sequence[Sequence[dict[str, Any]]], limits: LoopLimits = LIMITS) -> list[Repeat | None]:
    """The verdict after each turn."""
    recent: Recent = ()
    found = []
    for turn in turns:
        recent = observe(recent, signatures(turn, limits), limits)
        found.append(verdict(recent, limits))
    return found


@pytest.mark.parametrize(
    ("turn", "kind"),
    [([message(ANSWER)], "text"), ([call("search", '{"query": "weather in Oslo"}')], "call")],
)
def test_the_4th_warns_5th_and_6th_force_7th_halts(turn: list[dict[str, Any]], kind: Any) -> None:
    assert after([turn] * 8) == [
        None,
        None,
        None,
        Repeat(4, "warn", kind),
        Repeat(5, "force", kind),
        Repeat(6, "force", kind),
        Repeat(7, "halt", kind),
        Repeat(8, "halt", kind),
    ]


def test_a_turn_with_a_text_and_calls_still_halts_within_the_window() -> None:
    turn = [message(ANSWER), call("search", '{"query": "weather"}'), call("search", '{"query": "climate"}')]
    assert [one.action if one else None for one in after([turn] * 7)][3:] == ["warn", "force", "force", "halt"]


def test_the_same_call_made_many_times_in_one_turn_counts_once() -> None:
    assert after([[call("roll", '{"sides": 6, "dice": 2}')] * 9]) == [None]


def test_other_arguments_are_another_output() -> None:
    turns = [[call("search", f'{{"query": "page {n} of many"}}')] for n in range(10)]
    assert after(turns) == [None] * 10


def test_a_call_repeats_whatever_is_said_beside_it() -> None:
    turns = [
        [message(f"Let me try once more, attempt {n}."), call("search", '{"query": "x y z"}')] for n in range(4)
    ]
    assert after(turns)[-1] == Repeat(4, "warn", "call")


def test_custom_and_shell_calls_count_like_functions() -> None:
    shell = {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls", "-la", "/tmp"]}}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin Patch ***"}
    for item in (shell, custom):
        assert after([[item]] * 4)[-1] == Repeat(4, "warn", "call")


def test_white_space_and_case_make_no_difference() -> None:
    said = [
        "The answer is forty two.",
        "the  ANSWER is\nforty two.",
        "Theanswerisfortytwo.",
        "THE ANSWER IS FORTY TWO.",
    ]
    assert after([[message(text)] for text in said])[-1] == Repeat(4, "warn", "text")


def test_only_the_first_500_characters_are_compared() -> None:
    turns = [[message("a" * 500 + str(n))] for n in range(4)]
    assert after(turns)[-1] == Repeat(4, "warn", "text")
    turns = [[message("a" * 499 + str(n))] for n in range(4)]
    assert after(turns)[-1] is None


@pytest.mark.parametrize(
    ("text", "counts"), [("x" * 19, False), ("x" * 20, True), ("ä" * 9, False), ("ä" * 10, True)]
)
def test_outputs_under_20_bytes_of_utf8_are_ignored(text: str, counts: bool) -> None:
    assert (signature("text", text, LIMITS) is not None) is counts
    assert (after([[message(text)]] * 7)[-1] is not None) is counts


def test_an_ignored_turn_takes_no_place_in_the_window() -> None:
    turns = [turn for _ in range(4) for turn in ([message(ANSWER)], [message("ok")], [message("yes")])]
    assert after(turns)[9] == Repeat(4, "warn", "text")


def test_after_an_ignored_turn_nothing_is_asked_for() -> None:
    assert after([*[[message(ANSWER)]] * 4, [message("Done.")], [message(ANSWER)]])[3:] == [
        Repeat(4, "warn", "text"),
        None,
        Repeat(5, "force", "text"),
    ]


def test_what_fell_out_of_the_window_is_forgotten() -> None:
    turns = [[message(ANSWER)]] * 3 + [[message(f"{OTHER} {n}")] for n in range(9)] + [[message(ANSWER)]]
    assert after(turns)[-1] is None


def test_every_number_is_configuration() -> None:
    limits = DetectionSettings(
        window_turns=4, min_bytes=1, warn_at=2, force_at=3, halt_at=4, signature_chars=1
    ).limits
    actions = [one.action if one else None for one in after([[message(f"x{n}")] for n in range(4)], limits)]
    assert actions == [None, "warn", "force", "halt"]


@pytest.mark.parametrize("wrong", [{"warn_at": 6}, {"force_at": 8}, {"halt_at": 11}, {"window_turns": 6}])
def test_numbers_out_of_order_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="rising order"):
        DetectionSettings.model_validate(wrong)


words = st.sampled_from(
    [ANSWER, OTHER, "short", "a third answer, also long enough", "A third ANSWER, also long enough"]
)
turns_said = st.lists(st.lists(words, min_size=0, max_size=3), max_size=40)


@given(turns_said, st.integers(2, 12), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_the_verdict_is_the_count_of_the_newest_turn_in_the_window(
    said: list[list[str]], warn_at: int, more: int, still_more: int, room: int
) -> None:
    limits = LoopLimits(
        window_turns=warn_at + more + still_more + room,
        warn_at=warn_at,
        force_at=warn_at + more,
        halt_at=warn_at + more + still_more,
    )
    turns = [[call("search", text) for text in texts] for texts in said]
    normal = [{"".join(f"search {text}".split()).lower() for text in texts} for texts in said]
    counted: list[set[str]] = []
    for texts, got in zip(normal, after(turns, limits), strict=True):
        long_enough = {text for text in texts if "short" not in text}
        if long_enough:
            counted.append(long_enough)
        window = counted[-limits.window_turns :]
        newest = window[-1] if long_enough else set()
        most = max((sum(text in turn for turn in window) for text in newest), default=0)
        if most < limits.warn_at:
            assert got is None
            continue
        assert got is not None and got.repeats == most
        assert got.action == ("halt" if most >= limits.halt_at else "force" if most >= limits.force_at else "warn")


@given(st.text(max_size=600))
def test_any_text_has_a_signature_unless_it_is_short(text: str) -> None:
    found = signature("text", text, LIMITS)
    assert (found is None) == (len(text.encode()) < 20)
    assert found == signature("text", text.strip("\x00"), LIMITS) or "\x00" in text


# Along the chain of responses


def turn(name: str, *items: dict[str, Any], parent: Turn | None = None, recent: Recent | None = None) -> Turn:
    output = b",".join(orjson.dumps(item) for item in items)
    return Turn(name, "t", "p", "tenant", "conv", True, "completed", parent, b"", output, recent=recent)


def test_what_was_seen_is_read_again_from_the_outputs_of_a_chain() -> None:
    search = '{"query": "weather in Oslo"}'
    first = turn(
        "resp_1",
        {"type": "reasoning", "summary": []},
        message(ANSWER),
        call("search", search, "a"),
        {"type": "function_call_output", "call_id": "a", "output": "none"},
        message(ANSWER),
        call("search", search, "b"),
    )
    second = turn("resp_2", message(ANSWER), parent=first)
    expected: Recent = ()
    for items in ([message(ANSWER), call("search", search)],) * 2 + ([message(ANSWER)],):
        expected = observe(expected, signatures(items, LIMITS), LIMITS)
    assert rebuilt(second, LIMITS) == expected
    assert rebuilt(None, LIMITS) == ()


def test_what_a_turn_remembers_is_not_read_again() -> None:
    known: Recent = (frozenset({"text:known"}),)
    first = turn("resp_1", message(ANSWER), recent=known)
    second = turn("resp_2", message(OTHER), parent=first)
    assert rebuilt(first, LIMITS) == known
    assert rebuilt(second, LIMITS) == (*known, signatures([message(OTHER)], LIMITS))


def test_branches_of_a_conversation_do_not_count_each_others_turns() -> None:
    root = turn("resp_0", message("hello"))
    branches = [turn(f"resp_{n}", message(ANSWER), parent=root) for n in range(7)]
    assert [verdict(rebuilt(branch, LIMITS), LIMITS) for branch in branches] == [None] * 7


def test_only_the_end_of_a_long_history_is_read() -> None:
    chain = None
    for n in range(30):
        chain = turn(f"resp_{n}", message(ANSWER), parent=chain)
    assert len(rebuilt(chain, LIMITS)) == LIMITS.window_turns
    huge = turn("resp_big", message("x" * 300_000), parent=chain)
    assert len(rebuilt(turn("resp_end", message(ANSWER), parent=huge), LIMITS)) == 1
