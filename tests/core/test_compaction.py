"""What a compaction keeps and replaces: calls stay with their outputs, words of users word for word (T-13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.compaction import (
    DEFAULT_THRESHOLD_TOKENS,
    MEDIA_TOKENS,
    SEAL_PREFIX,
    estimate_tokens,
    expand,
    has_trigger,
    is_summary,
    is_worth_it,
    last_compaction,
    open_calls,
    plan,
    summary_item,
    threshold_tokens,
)
from antiphon.core.history import resolve_outputs
from antiphon.errors import RequestError

Item = dict[str, Any]


def said(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": text}


def pair(kind: str, call_id: str) -> tuple[Item, Item]:
    call: Item = {"type": kind, "call_id": call_id, "name": "f", "arguments": "{}"}
    key = "id" if kind == "local_shell_call" else "call_id"
    return call, {"type": f"{kind}_output", key: call_id, "output": "ok"}


KINDS = [
    "function_call",
    "custom_tool_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "local_shell_call",
]
REASONING: Item = {"type": "reasoning", "summary": [], "encrypted_content": "e"}
TOOLS: Item = {"type": "additional_tools", "role": "developer", "tools": []}
SEALED: Item = {"type": "compaction", "encrypted_content": f"{SEAL_PREFIX}1.sealed"}
FOREIGN: Item = {"type": "compaction", "encrypted_content": "gAAAA"}


@st.composite
def histories(draw: st.DrawFn) -> list[Item]:
    """Histories full of tools: parallel calls, outputs in any order, words between, reasoning before calls."""
    history: list[Item] = [said("developer", "rules"), said("user", "begin")]
    for turn in range(draw(st.integers(1, 4))):
        kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
        pairs = [pair(kind, f"c{turn}_{number}") for number, kind in enumerate(kinds)]
        history.append(REASONING)
        history += [call for call, _ in pairs]
        if draw(st.booleans()):
            history.append(said("user", f"meanwhile {turn}"))
        history += draw(st.permutations([output for _, output in pairs]))
        history.append(said("assistant", f"answer {turn}"))
        if draw(st.booleans()):
            history.append(said("user", f"next {turn}"))
    return history


def check_pairs(items: list[Item]) -> None:
    """Every call has its output, behind it."""
    resolve_outputs(None, items)


@given(histories())
def test_compacting_at_every_boundary_leaves_no_call_without_its_output(history: list[Item]) -> None:
    for end in range(len(history) + 1):
        head, tail = history[:end], history[end:]
        planned = plan(head)
        if planned is None:
            assert open_calls(head)
            continue
        check_pairs([*planned.with_summary("s"), *tail])
        check_pairs(planned.summarised)


@given(histories())
def test_a_compaction_in_any_place_of_an_input_leaves_no_call_without_its_output(history: list[Item]) -> None:
    for place in range(len(history) + 1):
        head = history[:place]
        planned = plan([item for item in head if item.get("call_id", item.get("id")) not in open_calls(head)])
        assert planned is not None
        sealed = planned.with_summary("s")
        items = expand([*head, SEALED, *history[place:]], place, sealed)
        check_pairs(items)
        assert [i for i in items if i.get("role") == "user" and not is_summary(i)] == [
            i for i in history if i.get("role") == "user"
        ], "nothing a user said is lost or said twice"


def test_words_of_users_and_rules_stay_and_the_rest_is_summarised_before_what_has_no_answer_yet() -> None:
    first, second = pair("function_call", "c")
    history = [said("developer", "rules"), TOOLS, said("user", "go"), REASONING, first, second]
    history += [said("assistant", "done"), FOREIGN, said("user", "more"), said("user", "and more")]
    planned = plan(history)
    assert planned is not None
    assert planned.before == [said("developer", "rules"), TOOLS, said("user", "go")]
    assert planned.summarised == [REASONING, first, second, said("assistant", "done")]
    assert planned.after == [FOREIGN, said("user", "more"), said("user", "and more")]
    assert planned.with_summary("s") == [*planned.before, summary_item("s"), *planned.after]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_compacted_while_a_call_is_open(kind: str) -> None:
    call, output = pair(kind, "c")
    assert plan([said("user", "go"), call]) is None
    assert plan([said("user", "go"), call, output]) is not None


def test_nothing_is_compacted_while_an_approval_is_awaited() -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1"}
    assert plan([request]) is None
    assert plan([request, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}]) is not None


def test_an_earlier_summary_is_taken_up_by_the_next_one() -> None:
    planned = plan([said("user", "go"), summary_item("before"), said("assistant", "done")])
    assert planned is not None
    assert planned.before == [said("user", "go")]
    assert planned.summarised[0] == summary_item("before")


# Compacted histories that clients send back


def test_a_compacted_history_stands_for_all_before_it_whether_the_client_kept_it_or_not() -> None:
    sealed = [said("developer", "rules"), said("user", "go"), summary_item("s")]
    new = said("user", "next")
    as_parts = {
        "role": "user",
        "id": "msg_1",
        "content": [{"type": "input_text", "text": "go"}],
        "status": "completed",
    }
    whole = [*sealed, new]
    for head in ([], sealed[:2], [as_parts], [sealed[0], as_parts, REASONING, said("assistant", "done")]):
        assert expand([*head, SEALED, new], len(head), sealed) == whole


def test_what_is_new_to_a_compacted_history_stays_in_front_of_it() -> None:
    sealed = [said("user", "go"), summary_item("s")]
    head = [said("developer", "other rules"), TOOLS, FOREIGN, said("user", "go")]
    assert expand([*head, SEALED], 4, sealed) == [*head[:3], *sealed]


def test_the_newest_compacted_history_counts() -> None:
    items = [SEALED, said("user", "a"), FOREIGN, SEALED, said("user", "b")]
    assert last_compaction(items) == 3
    assert last_compaction([FOREIGN]) is None
    assert expand(items, 3, [said("user", "a")]) == [FOREIGN, said("user", "a"), said("user", "b")]


def test_reasoning_stays_with_a_call_that_stays() -> None:
    call, output = pair("function_call", "c")
    items = [said("user", "go"), REASONING, call, SEALED, output]
    assert expand(items, 3, [said("user", "go")]) == [REASONING, call, said("user", "go"), output]


# When


@pytest.mark.parametrize(
    ("entries", "tokens"),
    [
        (None, None),
        ([], None),
        ([{"type": "compaction", "compact_threshold": 1000}], 1000),
        ([{"type": "compaction"}], DEFAULT_THRESHOLD_TOKENS),
        (
            [{"type": "compaction", "compact_threshold": 9000}, {"type": "compaction", "compact_threshold": 2000}],
            2000,
        ),
    ],
)
def test_the_lowest_threshold_counts(entries: Any, tokens: int | None) -> None:
    assert threshold_tokens(entries) == tokens


@pytest.mark.parametrize(
    ("entries", "param"),
    [
        ({}, "context_management"),
        ([1], "context_management[0]"),
        ([{"type": "trim"}], "context_management[0].type"),
        ([{"type": "compaction", "compact_threshold": 999}], "context_management[0].compact_threshold"),
        ([{"type": "compaction", "compact_threshold": True}], "context_management[0].compact_threshold"),
        ([{"type": "compaction", "compact_threshold": 1e4}], "context_management[0].compact_threshold"),
    ],
)
def test_a_threshold_that_cannot_be_is_refused(entries: Any, param: str) -> None:
    with pytest.raises(RequestError) as refused:
        threshold_tokens(entries)
    assert refused.value.param == param


def test_a_trigger_is_the_last_item_or_refused() -> None:
    trigger = {"type": "compaction_trigger"}
    assert has_trigger([said("user", "go"), trigger])
    assert not has_trigger([said("user", "go")])
    assert not has_trigger([])
    for items in ([trigger, said("user", "go")], [trigger, trigger]):
        with pytest.raises(RequestError) as refused:
            has_trigger(items)
        assert refused.value.param == "input[0]"


def test_a_summary_that_would_free_next_to_nothing_is_not_paid_for() -> None:
    words = [said("user", "x" * 40_000)]
    for answer, worth in (("short", False), ("y" * 4000, True)):
        planned = plan([*words, said("assistant", answer)])
        assert planned is not None
        assert is_worth_it(planned, 1000) is worth


@given(st.text(max_size=500))
def test_four_bytes_are_a_token(text: str) -> None:
    assert estimate_tokens([said("user", text)]) >= len(text) // 8


def test_an_image_counts_the_same_however_large_it_is() -> None:
    image = "data:image/png;base64," + "A" * 1_000_000
    messages = [{"role": "user", "content": [{"type": "input_image", "image_url": image}]}]
    assert MEDIA_TOKENS <= estimate_tokens(messages) < MEDIA_TOKENS + 100
