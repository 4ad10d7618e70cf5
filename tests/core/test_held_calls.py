"""Held calls: one answer each, all of a list or none, losers told who won, claims with lease and fence."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from antiphon.core.held_answers import read_answers
from antiphon.core.held_calls import DEADLINE, HeldCall, HeldCalls, Resolution, Sender, held_call
from antiphon.errors import RequestError

NOW = 1000.0
ANNA = Sender("key:anna", "conn_1", "tab-1")
BOB = Sender("key:bob", "conn_2")


def call(call_id: str, item_type: str = "function_call", **fields: Any) -> HeldCall:
    given: dict[str, Any] = {
        "call_id": call_id,
        "name": "look",
        "item_type": item_type,
        "arguments_sha256": "0" * 64,
        "opened_at": NOW,
        "deadline": NOW + 600,
    }
    return HeldCall(**{**given, **fields})


def calls(*call_ids: str, **fields: Any) -> HeldCalls:
    held = HeldCalls()
    for call_id in call_ids:
        held.open(call(call_id, **fields))
    return held


def output(call_id: str, text: str = "done", **options: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "function_call_output", "call_id": call_id, "output": text}
    return {**item, "antiphon": options} if options else item


def inject(held: HeldCalls, sender: Sender, *items: dict[str, Any], now: float = NOW) -> list[Resolution]:
    """Check and commit; what was taken."""
    taken = held.check(read_answers(list(items)), sender, now)
    held.commit(taken)
    return taken


def refused(held: HeldCalls, sender: Sender, *items: dict[str, Any], now: float = NOW) -> RequestError:
    before = (held.pending, held.resolved_rows())
    with pytest.raises(RequestError) as caught:
        inject(held, sender, *items, now=now)
    assert (held.pending, held.resolved_rows()) == before
    return caught.value


# Answers


def test_answers_come_in_the_order_of_the_calls_whatever_order_they_came_in() -> None:
    held = calls("c1", "c2", "c3")
    for call_id in ("c3", "c1", "c2"):
        inject(held, BOB, output(call_id, call_id))
    assert [answer.item["output"] for answer in held.take()] == ["c1", "c2", "c3"]
    assert held.take() == []


def test_a_set_with_a_call_that_still_waits_cannot_be_taken() -> None:
    held = calls("c1", "c2")
    inject(held, BOB, output("c1"))
    with pytest.raises(RuntimeError):
        held.take()


def test_the_second_sender_is_told_who_was_first() -> None:
    held = calls("c1")
    inject(held, ANNA, output("c1", "hers"))
    error = refused(held, BOB, output("c1", "his"))
    assert error.code == "already_resolved"
    assert error.extra["winner"] == {"call_id": "c1", "by": "key:anna", "instance": "tab-1", "at": NOW}
    assert held.take()[0].item["output"] == "hers"


def test_of_two_that_were_checked_before_either_was_committed_the_first_commit_counts() -> None:
    held = calls("c1")
    hers = held.check(read_answers([output("c1", "hers")]), ANNA, NOW)
    his = held.check(read_answers([output("c1", "his")]), BOB, NOW)
    assert [c.call_id for c in held.commit(hers)] == ["c1"]
    assert held.commit(his) == []
    assert held.take()[0].item["output"] == "hers"


@pytest.mark.parametrize(
    ("again", "options"),
    [
        (Sender("key:anna", "conn_9", "tab-1"), {}),
        (Sender("key:anna", "conn_9"), {"result_id": "r1"}),
        (Sender("key:anna", "conn_9", "tab-2"), {"result_id": "r1"}),
    ],
    ids=[
        "the same instance elsewhere",
        "the same result id without hello",
        "the same result id, another instance",
    ],
)
def test_a_repeat_is_no_conflict_and_changes_nothing(again: Sender, options: dict[str, Any]) -> None:
    held = calls("c1")
    inject(held, ANNA, output("c1", result_id="r1"))
    assert inject(held, again, output("c1", "other", **options)) == []
    assert held.take()[0].item["output"] == "done"


@pytest.mark.parametrize(
    "other",
    [Sender("key:anna", "conn_9"), Sender("key:bob", "conn_1", "tab-1"), Sender("key:anna", "conn_9", "tab-2")],
    ids=["another connection without hello", "the same instance of another principal", "another instance"],
)
def test_an_answer_of_somebody_else_is_no_repeat(other: Sender) -> None:
    held = calls("c1")
    inject(held, ANNA, output("c1", result_id="r1"))
    assert refused(held, other, output("c1")).code == "already_resolved"


def test_a_result_id_of_another_principal_is_no_repeat() -> None:
    held = calls("c1")
    inject(held, ANNA, output("c1", result_id="r1"))
    assert refused(held, BOB, output("c1", result_id="r1")).code == "already_resolved"


def test_without_hello_the_connection_is_who_repeats() -> None:
    held = calls("c1")
    inject(held, BOB, output("c1"))
    assert inject(held, BOB, output("c1")) == []
    assert refused(held, Sender("key:bob", "conn_3"), output("c1")).code == "already_resolved"


def test_a_list_with_one_bad_item_takes_nothing() -> None:
    held = calls("c1", "c2")
    assert refused(held, BOB, output("c1"), output("nobody")).code == "unknown_call"
    assert [c.call_id for c in held.pending] == ["c1", "c2"]


def test_a_list_of_old_and_new_answers_takes_the_new_ones() -> None:
    held = calls("c1", "c2")
    inject(held, BOB, output("c1"))
    assert [answer.call_id for answer in inject(held, BOB, output("c1"), output("c2"))] == ["c2"]


@pytest.mark.parametrize(
    ("item_type", "item"),
    [
        ("custom_tool_call", {"type": "custom_tool_call_output", "call_id": "c1", "output": "x"}),
        ("local_shell_call", {"type": "local_shell_call_output", "id": "c1", "output": "{}"}),
        ("apply_patch_call", {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed"}),
        (
            "shell_call",
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ),
        (
            "computer_call",
            {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
        ),
        ("mcp_approval_request", {"type": "mcp_approval_response", "approval_request_id": "c1", "approve": True}),
    ],
)
def test_each_kind_of_call_takes_its_kind_of_answer_only(item_type: str, item: dict[str, Any]) -> None:
    assert refused(calls("c1", item_type=item_type), BOB, output("c1")).code == "invalid_input"
    held = calls("c1", item_type=item_type)
    taken = inject(held, BOB, item)[0].item
    assert "id" not in taken
    assert taken.get("call_id", taken.get("approval_request_id")) == "c1"


def test_what_is_ours_in_an_answer_is_not_kept() -> None:
    held = calls("c1")
    inject(held, BOB, {**output("c1", result_id="r", fence=0), "id": "mine", "status": "in_progress"})
    kept = {"type": "function_call_output", "call_id": "c1", "output": "done", "status": "completed"}
    assert held.take()[0].item == kept


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ("text", "input[0]"),
        ({}, "input[0].type"),
        ({"type": 7}, "input[0].type"),
        ({"type": "message", "role": "user", "content": "hi"}, "input[0].type"),
        ({"type": "function_call", "call_id": "c1"}, "input[0].type"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "id": "c1", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": 7, "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "c1"}, "input[0].output"),
        ({"type": "function_call_output", "call_id": "c1", "output": 7}, "input[0].output"),
        ({"type": "function_call_output", "call_id": "c1", "output": ["x"]}, "input[0].output[0]"),
        ({**output("c1"), "status": "sleeping"}, "input[0].status"),
        ({**output("c1"), "name": 7}, "input[0].name"),
        ({**output("c1"), "antiphon": []}, "input[0].antiphon"),
        (output("c1", resultid="r"), "input[0].antiphon.resultid"),
        (output("c1", result_id=""), "input[0].antiphon.result_id"),
        (output("c1", result_id="r" * 257), "input[0].antiphon.result_id"),
        (output("c1", fence="1"), "input[0].antiphon.fence"),
        (output("c1", fence=True), "input[0].antiphon.fence"),
        (output("c1", fence=-1), "input[0].antiphon.fence"),
        ({"type": "mcp_approval_response", "approve": True}, "input[0].approval_request_id"),
        ({"type": "mcp_approval_response", "approval_request_id": "c1", "approve": 1}, "input[0].approve"),
        ({"type": "mcp_approval_response", "approval_request_id": "c1"}, "input[0].approve"),
    ],
)
def test_a_malformed_answer_is_refused_by_its_place(item: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_answers([item])
    assert (caught.value.code, caught.value.param) == ("invalid_input", param)


def test_an_empty_list_and_a_call_named_twice_are_refused() -> None:
    for given in ([], [output("c1"), output("c1")]):
        with pytest.raises(RequestError) as caught:
            read_answers(given)
        assert caught.value.code == "invalid_input"


def test_after_the_end_repeats_and_losers_still_hear_the_truth_and_others_that_it_is_over() -> None:
    held = calls("c1", "c2")
    inject(held, ANNA, output("c1"))
    held.close()
    assert inject(held, ANNA, output("c1")) == []
    assert refused(held, BOB, output("c1")).code == "already_resolved"
    assert refused(held, ANNA, output("c2")).code == "response_already_completed"
    assert refused(held, ANNA, output("nobody")).code == "response_already_completed"


# Claims


def take_claim(held: HeldCalls, sender: Sender, now: float = NOW, eligible: bool = True, **fields: Any) -> int:
    return held.claim("c1", sender, 30, now, eligible=eligible, **fields).fence


def claim_refused(held: HeldCalls, sender: Sender, now: float = NOW, **fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        take_claim(held, sender, now, **fields)
    return caught.value


def test_a_claim_keeps_others_from_claiming_and_answering_until_its_lease_ends() -> None:
    held = calls("c1")
    assert take_claim(held, ANNA) == 1
    told = {"holder": "key:anna", "instance": "tab-1", "expires_at": NOW + 30}
    for error in (claim_refused(held, BOB), refused(held, BOB, output("c1"), now=NOW + 29.9)):
        assert (error.code, error.extra, error.retryable) == ("claim_held", told, True)
    assert take_claim(held, BOB, NOW + 30) == 2


def test_without_a_claim_or_after_its_lease_anybody_may_answer() -> None:
    held = calls("c1")
    take_claim(held, ANNA)
    inject(held, BOB, output("c1"), now=NOW + 30)
    assert held.take()[0].by == "key:bob"


def test_the_same_instance_comes_back_on_another_connection_and_goes_on_with_its_fence() -> None:
    held = calls("c1")
    fence = take_claim(held, ANNA)
    back = Sender("key:anna", "conn_7", "tab-1")
    assert take_claim(held, back, NOW + 10) == fence
    assert held.renew("c1", back, fence, 30, NOW + 20).expires_at == NOW + 50
    inject(held, back, output("c1", fence=fence), now=NOW + 49)
    assert not held.pending


def test_a_late_renewal_is_good_if_nobody_else_took_the_call() -> None:
    held = calls("c1")
    fence = take_claim(held, ANNA)
    assert held.renew("c1", ANNA, fence, 30, NOW + 100).expires_at == NOW + 130
    take_claim(held, BOB, NOW + 200)
    with pytest.raises(RequestError) as caught:
        held.renew("c1", ANNA, fence, 30, NOW + 201)
    assert caught.value.code == "stale_fence"


def test_an_answer_under_an_old_fence_is_refused_even_when_the_lease_of_the_new_one_has_ended() -> None:
    held = calls("c1")
    old = take_claim(held, ANNA)
    take_claim(held, BOB, NOW + 40)
    assert refused(held, ANNA, output("c1", fence=old), now=NOW + 41).code == "stale_fence"
    assert refused(held, ANNA, output("c1", fence=old), now=NOW + 400).code == "stale_fence"
    assert refused(held, ANNA, output("c1", fence=99), now=NOW + 400).code == "stale_fence"


def test_fences_rise_over_release_and_expiry() -> None:
    held = calls("c1")
    first = take_claim(held, ANNA)
    held.release("c1", ANNA, first)
    second = take_claim(held, BOB)
    third = take_claim(held, ANNA, NOW + 60)
    assert (first, second, third) == (1, 2, 3)


def test_only_the_holder_can_renew_or_release() -> None:
    held = calls("c1")
    fence = take_claim(held, ANNA)
    for attempt in (
        lambda: held.renew("c1", BOB, fence, 30, NOW),
        lambda: held.release("c1", BOB, fence),
        lambda: held.release("c1", ANNA, fence + 1),
    ):
        with pytest.raises(RequestError) as caught:
            attempt()
        assert caught.value.code == "stale_fence"
    assert claim_refused(held, BOB).code == "claim_held"


def test_who_is_not_asked_cannot_claim_and_can_answer() -> None:
    held = calls("c1")
    assert claim_refused(held, BOB, eligible=False).code == "not_eligible"
    inject(held, BOB, output("c1"))


def test_a_holder_that_is_no_longer_asked_keeps_its_claim() -> None:
    held = calls("c1")
    fence = take_claim(held, BOB)
    assert take_claim(held, BOB, NOW + 5, eligible=False) == fence


def test_claims_of_answered_unknown_and_ended_calls_are_refused_by_name() -> None:
    held = calls("c1", "c2")
    inject(held, ANNA, output("c1"))
    assert claim_refused(held, BOB).code == "already_resolved"
    with pytest.raises(RequestError) as caught:
        held.claim("c9", BOB, 30, NOW, eligible=True)
    assert caught.value.code == "unknown_call"
    held.close()
    with pytest.raises(RequestError) as caught:
        held.claim("c2", BOB, 30, NOW, eligible=True)
    assert caught.value.code == "response_already_completed"
    assert claim_refused(calls("c1"), BOB, fence=4).code == "stale_fence"


def test_a_call_with_side_effects_stays_with_those_who_were_asked_first() -> None:
    held = calls("c1", side_effects=True)
    assert held.ask("c1", []) == frozenset()
    assert held.ask("c1", [ANNA.identity]) == {ANNA.identity}
    assert held.ask("c1", [BOB.identity]) == frozenset()
    assert held.ask("c1", [BOB.identity, ANNA.identity]) == {ANNA.identity}


def test_a_call_with_side_effects_passes_on_only_when_its_holder_gives_it_back() -> None:
    held = calls("c1", side_effects=True)
    both = [ANNA.identity, BOB.identity]
    assert held.ask("c1", both) == frozenset(both)
    fence = take_claim(held, ANNA)
    assert held.ask("c1", both) == {ANNA.identity}
    held.release("c1", ANNA, fence)
    assert held.ask("c1", [BOB.identity]) == {BOB.identity}


# Deadlines


def test_a_deadline_gives_the_model_an_error_output_and_later_answers_a_loser() -> None:
    held = calls("c1", "c2")
    inject(held, BOB, output("c2"))
    assert held.expired(NOW + 599.9) == []
    assert [c.call_id for c in held.expired(NOW + 600)] == ["c1"]
    late = held.expired(NOW + 600)[0].late
    assert late is not None
    held.commit([Resolution("c1", late, DEADLINE, DEADLINE, None, NOW + 600)])
    assert "600 seconds" in held.take()[0].item["output"]
    assert refused(held, BOB, output("c1")).extra["winner"]["by"] == DEADLINE


@pytest.mark.parametrize(
    "item_type",
    [
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "mcp_approval_request",
    ],
)
def test_the_answer_of_a_deadline_is_one_a_client_could_have_given(item_type: str) -> None:
    late = call("c1", item_type).late
    assert late is not None
    answer = read_answers([{**late, "id": "c1"} if item_type == "local_shell_call" else late])[0]
    inject(calls("c1", item_type=item_type), BOB, late)
    assert answer.call_id == "c1"


def test_cancel_and_a_screenshot_end_the_run_and_wait_waits() -> None:
    assert call("c1", on_expiry="cancel").late is None
    assert call("c1", "computer_call").late is None
    held = calls("c1", on_expiry="wait")
    assert held.expired(NOW + 9999) == []
    assert held.next_change(NOW) is None


def test_the_next_change_is_the_first_deadline_or_end_of_a_lease() -> None:
    held = HeldCalls()
    assert held.next_change(NOW) is None
    held.open(call("c1", deadline=NOW + 50))
    held.open(call("c2", deadline=NOW + 40))
    assert held.next_change(NOW) == NOW + 40
    take_claim(held, ANNA)
    assert held.next_change(NOW) == NOW + 30
    assert held.next_change(NOW + 30) == NOW + 40
    inject(held, ANNA, output("c2"))
    assert held.next_change(NOW + 31) == NOW + 50


# What others see, and what outlives the process


def test_a_pending_row_names_the_call_its_hash_and_who_holds_it_and_never_its_arguments() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": '{"eur":7}'}
    held = HeldCalls()
    held.open(held_call(item, now=NOW, deadline_s=60, on_expiry="fail"))
    take_claim(held, BOB)
    assert held.pending_rows(NOW, {"c1": ["conn_2"]}) == [
        {
            "call_id": "c1",
            "name": "pay",
            "arguments_sha256": hashlib.sha256(b'{"eur":7}').hexdigest(),
            "kind": "function",
            "eligible": ["conn_2"],
            "claim": {"holder": "key:bob", "expires_at": NOW + 30},
            "deadline": NOW + 60,
        }
    ]
    assert held.pending_rows(NOW + 30, {})[0]["claim"] is None


@pytest.mark.parametrize(
    ("item", "kind", "name"),
    [
        ({"type": "custom_tool_call", "call_id": "c", "name": "py", "input": "1"}, "custom", "py"),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "shell", "shell"),
        ({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "x"}}, "apply_patch", "apply_patch"),
        ({"type": "mcp_approval_request", "id": "c", "name": "rm", "arguments": "{}"}, "approval", "rm"),
    ],
)
def test_each_kind_of_call_has_its_name_kind_and_hash(item: dict[str, Any], kind: str, name: str) -> None:
    made = held_call(item, now=NOW, deadline_s=1, on_expiry="wait")
    assert (made.call_id, made.kind, made.name) == ("c", kind, name)
    assert made.arguments_sha256 != held_call({**item, "call_id": "c", "input": "2", "action": 2, "operation": 2,
        "arguments": "2", "id": "c"}, now=NOW, deadline_s=1, on_expiry="wait").arguments_sha256  # fmt: skip


def test_the_last_hundred_answered_calls_are_shown() -> None:
    held = calls(*(f"c{n}" for n in range(130)))
    for n in range(130):
        inject(held, BOB, output(f"c{n}"))
    assert [row["call_id"] for row in held.resolved_rows()] == [f"c{n}" for n in range(30, 130)]


def test_a_snapshot_with_the_stored_answers_is_the_same_calls_again() -> None:
    held = calls("c1", "c2", "c3", side_effects=True)
    before = inject(held, ANNA, output("c2", "kept"))
    held.ask("c3", [BOB.identity])
    claim = held.claim("c1", ANNA, 30, NOW, eligible=True)
    kept = orjson.loads(orjson.dumps(held.snapshot()))
    older = Resolution("c0", {}, "key:bob", "connection:conn_0", None, NOW - 10)
    again = HeldCalls.restore(kept, [older, *before], {"c1": claim})
    assert again.pending_rows(NOW, {}) == held.pending_rows(NOW, {})
    assert again.renew("c1", ANNA, claim.fence, 30, NOW).fence == claim.fence
    assert again.ask("c3", [ANNA.identity, BOB.identity]) == {BOB.identity}
    assert refused(again, BOB, output("c2")).code == "already_resolved"
    assert refused(again, ANNA, output("c0")).extra["winner"]["by"] == "key:bob"
    inject(again, ANNA, output("c1"), output("c3"))
    assert [answer.call_id for answer in again.take()] == ["c1", "c2", "c3"]
