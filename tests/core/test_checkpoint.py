"""What outlives a process comes back as it was."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.assembly.server_call import CallResult
from antiphon.core.checkpoint import Checkpoint, pack_item, read_checkpoint, unpack_item
from antiphon.core.history import finished_output
from antiphon.core.rounds import open_calls, server_calls
from tests.core.runs import check_log, new_assembler
from tests.core.test_mixed_rounds import SERVER_TOOLS, Round, complete, feed, lifecycle, rounds

texts = st.text(max_size=20)
checkpoints = st.builds(
    Checkpoint,
    round=st.integers(0, 1000),
    waiting=st.booleans(),
    context=texts,
    usage=st.none() | st.dictionaries(texts, st.integers(0, 2**53 - 1), max_size=2),
    compacted=st.none() | texts,
    first=st.integers(0, 100),
    items=st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2),
    held=st.none() | st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
    steers=st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2),
    calls_made=st.integers(0, 100),
    clean=st.booleans(),
    takeovers=st.integers(0, 10),
)


@given(checkpoints)
def test_a_checkpoint_is_read_as_it_was_written(checkpoint: Checkpoint) -> None:
    assert read_checkpoint(checkpoint.encode()) == checkpoint


def test_a_checkpoint_of_a_release_before_is_read_and_one_of_a_later_release_refused() -> None:
    old = read_checkpoint(b'{"round": 1, "waiting": false, "context": ""}')
    assert (old.calls_made, old.takeovers, old.clean) == (0, 0, False)
    for payload in (b'{"round": 1, "waiting": false, "context": "", "new": 1}', b"{}", b"[]", b"no"):
        with pytest.raises((ValueError, TypeError)):
            read_checkpoint(payload)


@given(rounds(), st.booleans())
def test_a_round_that_waits_is_the_same_in_the_next_process(one: Round, server_calls_made: bool) -> None:
    before = new_assembler()
    before.server_tools = SERVER_TOOLS
    log = lifecycle(before) + feed(before, one.events)
    if server_calls_made:
        log += complete(before, one.made)
    else:
        log += before.complete_calls({})
    packed = orjson.loads(orjson.dumps([pack_item(item) for item in before.round_items]))
    after = Assembler(before.response, before._mint)
    after.server_tools = SERVER_TOOLS
    after.restore([unpack_item(one) for one in packed], 0, len(log))

    assert _seen(after) == _seen(before)
    assert server_calls(after.round_items) == []
    for outcome in (Outcome("completed"), Outcome("cancelled", reason="cancelled")):
        assert finished_output(after.round_items, outcome) == finished_output(before.round_items, outcome)

    log += _answered(after)
    log.append(after.terminal(Outcome("completed")))
    run = check_log(log)
    assert [item["id"] for item in run.terminal["output"]][: len(packed)] == [one["id"] for one in packed]
    assert finished_output(after.round_items, Outcome("completed"))[1] == ()


def _seen(assembler: Any) -> list[Any]:
    """Everything about the items that the loop asks for."""
    return [
        (i.id, i.index, i.type, i.call_id, i.owner, i.status, i.done, i.arguments, i.for_model(), i.result, i.tool)
        for i in assembler.items
    ] + [[item.id for item in open_calls(assembler.round_items)]]


def _answered(assembler: Any) -> list[bytes]:
    """Clients answer what is open, and the loop shows it."""
    for item in open_calls(assembler.round_items):
        if item.tool is not None and item.owner == "approver":
            assembler.begin_call(item.tool, item.for_model(), item.id)
        elif item.tool is None:
            assembler.add_output(item, {"type": f"{item.type}_output", "output": "seen"})
    results = {item.call_id: CallResult(output="yes") for item in assembler.round_items if item.owner == "server"}
    return [*assembler.take(), *assembler.complete_calls(results)]
