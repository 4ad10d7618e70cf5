"""What a model call counts when its upstream did not say, and how a run's calls add up."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import normal_usage
from antiphon.core.usage_estimate import Said, Spent, estimated_usage, said_in
from tests.contract.playing import call, says
from tests.core.runs import new_assembler

counts = st.integers(0, 10_000)
costs = st.none() | st.integers(0, 10**12)


def usage(given: int, made: int) -> dict[str, Any]:
    counted = normal_usage({"input_tokens": given, "output_tokens": made})
    assert counted is not None
    return counted


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "input": [], "stream": True, **fields})


@given(st.lists(st.tuples(counts, counts, costs), max_size=8))
def test_a_run_has_spent_the_sum_of_its_calls_and_its_cost_is_known_if_all_of_them_are(
    calls: list[tuple[int, int, int | None]],
) -> None:
    spent = Spent()
    assert (spent.usage, spent.cost) == (None, None)
    for given_tokens, made, cost in calls:
        spent = spent.plus(usage(given_tokens, made), cost)
    assert spent.calls == len(calls)
    if calls:
        assert spent.usage == usage(sum(one[0] for one in calls), sum(one[1] for one in calls))
        known = [one[2] for one in calls if one[2] is not None]
        assert spent.cost_nano == (sum(known) if len(known) == len(calls) else None)
        assert Spent(**orjson.loads(orjson.dumps(spent))) == spent


def test_one_estimate_makes_the_sum_an_estimate() -> None:
    counted = Spent().plus(usage(1, 1), 0)
    assert not counted.estimated
    assert counted.plus(usage(1, 1), 0, estimated=True).plus(usage(1, 1), 0).estimated


def test_an_estimate_counts_what_the_model_read_and_gave_at_four_bytes_a_token() -> None:
    text = "word " * 80
    said = Said(output_bytes=401, reasoning_bytes=40)
    found = estimated_usage(body(input=[{"role": "user", "content": text}], instructions="x" * 400), said)
    assert 200 < found["input_tokens"] < 230
    assert (found["output_tokens"], found["output_tokens_details"]["reasoning_tokens"]) == (101, 10)
    assert found["total_tokens"] == found["input_tokens"] + 101
    assert found["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


def test_tools_count_and_what_no_model_reads_does_not() -> None:
    tool = {"type": "function", "name": "look", "description": "d" * 400}
    plain = estimated_usage(body(), Said())["input_tokens"]
    assert estimated_usage(body(tools=[tool]), Said())["input_tokens"] > plain + 90
    assert estimated_usage(body(metadata={"note": "m" * 400}), Said())["input_tokens"] == plain


def test_an_image_counts_a_fixed_number_however_large_it_is() -> None:
    part = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 1_000_000}
    found = estimated_usage(body(input=[{"role": "user", "content": [part]}]), Said())
    assert found["input_tokens"] < 2_000


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_streamed_counts_whether_the_items_are_finished_or_not(whole: bool) -> None:
    assembler = new_assembler()
    events = says(("reasoning", "hmm "), ("text", "a word or two"), call("look", where="here"))
    for event in events if whole else events[:-2]:
        assembler.feed([event])
    said = said_in(assembler.round_items)
    assert said.reasoning_bytes == len("hmm ")
    assert said.output_bytes == len("hmm " + "a word or two" + "look" + '{"where": "here"}')


def test_nothing_said_is_nothing() -> None:
    assert not said_in(new_assembler().round_items)
    assert Said(1)
