"""Which fragments make one call (S-11): by index, by id, by name, or by nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.upstream.chat.calls import CallGroups
from tests.support.chat_stub import fragment

Wanted = list[tuple[str, str, str]]
WHOLE_A, WHOLE_B = '{"a": 1}', '{"b": {}}'


def grouped(*chunks: Any) -> Wanted:
    """The calls that chunks of fragments make: (id, name, arguments)."""
    groups = CallGroups()
    for fragments in chunks:
        groups.take(fragments)
    return [(call.id, call.name, "".join(call.pieces)) for call in groups.all]


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [[fragment(WHOLE_A, "f", "1")], [fragment(WHOLE_B, "g", "2")]],
            [("1", "f", WHOLE_A), ("2", "g", WHOLE_B)],
            id="one index, two ids, each in one chunk",
        ),
        pytest.param(
            [
                [fragment("", "f", "1")],
                [fragment('{"a"')],
                [fragment(": 1}")],
                [fragment("", "f", "2")],
                [fragment(WHOLE_B)],
            ],
            [("1", "f", WHOLE_A), ("2", "f", WHOLE_B)],
            id="one index, two ids, in fragments",
        ),
        pytest.param(
            [[fragment('{"a"', "f", "1"), fragment("{", "g", "2")], [fragment(": 1}", call_id="1")]]
            + [[fragment('"b": {}}', call_id="2")]],
            [("1", "f", WHOLE_A), ("2", "g", WHOLE_B)],
            id="one index, two ids, in turns",
        ),
        pytest.param(
            [[fragment(WHOLE_A, "f", "1", None)], [fragment("", "g", "2", None)], [fragment(WHOLE_B, index=None)]],
            [("1", "f", WHOLE_A), ("2", "g", WHOLE_B)],
            id="no index, two ids",
        ),
        pytest.param(
            [[fragment(WHOLE_A, "f", index=None), fragment(WHOLE_B, "g", index=None)]],
            [("", "f", WHOLE_A), ("", "g", WHOLE_B)],
            id="no index, no id, one chunk",
        ),
        pytest.param(
            [[fragment("", "f", index=None), fragment("", "f", index=None)]],
            [("", "f", ""), ("", "f", "")],
            id="two calls without anything in one chunk",
        ),
        pytest.param(
            [[fragment(WHOLE_A, "f")], [fragment(WHOLE_B, "g")]],
            [("", "f", WHOLE_A), ("", "g", WHOLE_B)],
            id="one index, no id, another name",
        ),
        pytest.param(
            [[fragment(WHOLE_A, "f", "same")], [fragment(WHOLE_B, "f", "same")]],
            [("same", "f", WHOLE_A), ("same", "f", WHOLE_B)],
            id="everything constant, whole arguments",
        ),
        pytest.param(
            [[fragment('{"a', "f", "same", i)] for i in (0, 1)]
            + [[fragment('": 1}', "f", "same", i)] for i in (0, 1)],
            [("same", "f", WHOLE_A), ("same", "f", WHOLE_A)],
            id="constant id on two indices, repeated in each fragment",
        ),
        pytest.param(
            [[fragment('{"a', "f", "1")], [fragment('": ', "f", "2")], [fragment("1}", None, "3")]],
            [("1", "f", '{"a'), ("2", "f", '": 1}')],
            id="a new id with a name opens, one without goes on",
        ),
        pytest.param(
            [[fragment("", "f", "1")], [fragment("{}", None, "1"), fragment("{}", None, "2", 1)]],
            [("1", "f", "{}"), ("2", "", "{}")],
            id="an index nothing was heard of opens even without a name",
        ),
        pytest.param(
            [[fragment(None, "get_")], [fragment(None, "weather")], [fragment("{}")]],
            [("", "get_weather", "{}")],
            id="a name in pieces",
        ),
        pytest.param(
            [[fragment(None, "get_")], [fragment(None, "get_weather")], [fragment("{}", "get_weather")]],
            [("", "get_weather", "{}")],
            id="a name that grows and is repeated",
        ),
        pytest.param(
            [[fragment({"a": 1}, "f", "1")]],
            [("1", "f", '{"a":1}')],
            id="arguments as an object",
        ),
        pytest.param(
            [[{"index": 0, "function": {"name": "f", "arguments": "{}"}}], [{"index": 0, "id": "late"}]],
            [("late", "f", "{}")],
            id="an id that comes late",
        ),
        pytest.param(
            fragment(WHOLE_A, "f", "1"),
            [("1", "f", WHOLE_A)],
            id="an object instead of a list",
        ),
        pytest.param(
            [
                [
                    None,
                    5,
                    {},
                    {"function": None},
                    {"index": "0", "id": 7, "function": {"name": 1, "arguments": "{}"}},
                ]
            ],
            [("", "", "{}")],
            id="what makes no sense",
        ),
    ],
)
def test_fragments_make_the_calls_that_were_meant(chunks: Any, calls: Wanted) -> None:
    assert grouped(*(chunks if isinstance(chunks, list) else [chunks])) == calls


_ARGUMENTS = st.dictionaries(
    st.text(max_size=4),
    st.text(alphabet='{}"\\aé🚀', max_size=6) | st.integers() | st.just({}),
    min_size=1,
    max_size=3,
).map(lambda value: json.dumps(value, ensure_ascii=False))


@st.composite
def _answers(draw: st.DrawFn) -> tuple[Wanted, list[list[dict[str, Any]]]]:
    """Calls, and the chunks of a server that numbers and names them in one of the ways that were seen."""
    count = draw(st.integers(1, 4))
    numbering = draw(st.sampled_from(["right", "zero", "none"]))
    naming = draw(st.sampled_from(["unique", "constant", "absent"]))
    # Without index and id of its own a call can only be told from the one before by its name.
    told_apart = numbering == "right" or naming == "unique"
    wanted, chunks = [], []
    for number in range(count):
        name = f"f{number}" if not told_apart else draw(st.sampled_from(["f", "g"]))
        call_id = {"unique": f"call_{number}", "constant": "call", "absent": None}[naming]
        arguments = draw(_ARGUMENTS)
        wanted.append((call_id or "", name, arguments))
        index = {"right": number, "zero": 0, "none": None}[numbering]
        cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        repeats_id = draw(st.booleans())
        for place, piece in enumerate(pieces):
            told = place == 0 or repeats_id
            one = fragment(piece, name if place == 0 else None, call_id if told else None, index)
            chunks.append([one])
    if numbering == "right" and draw(st.booleans()):
        chunks = _in_turns(chunks)
    elif draw(st.booleans()):
        chunks = [[one for chunk in chunks for one in chunk]]
    return wanted, chunks


def _in_turns(chunks: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """First the beginnings of all calls in order, then one fragment of each in turn."""
    by_call: dict[int, list[list[dict[str, Any]]]] = {}
    for chunk in chunks:
        by_call.setdefault(chunk[0]["index"], []).append(chunk)
    rounds = max(map(len, by_call.values()))
    return [each[turn] for turn in range(rounds) for each in by_call.values() if turn < len(each)]


@given(_answers())
def test_calls_are_told_apart_however_a_server_numbers_them(
    answer: tuple[Wanted, list[list[dict[str, Any]]]],
) -> None:
    wanted, chunks = answer
    assert grouped(*chunks) == wanted


_JUNK = st.sampled_from([None, "", 0, -1, True, 1.5, [], {}, "x", {"name": "f"}, {"arguments": 3}, [{"index": 0}]])


@given(st.lists(st.dictionaries(st.sampled_from(["index", "id", "function", "type"]), _JUNK) | _JUNK, max_size=8))
def test_no_fragment_whatever_it_holds_breaks_the_answer(fragments: list[Any]) -> None:
    grouped(fragments, *fragments)
