"""What nodes say to each other arrives as it was said."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.held_calls import Claim, Sender
from antiphon.core.participants import Participant
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, BusError, Draining, NodeGone, RequestError, StorageError, UpstreamError
from antiphon.runs.elsewhere.messages import (
    Answer,
    CompanyNews,
    Guest,
    pack_answer,
    pack_error,
    pack_injected,
    pack_news,
    pack_settled,
    pack_told,
    read_answer,
    read_error,
    read_injected,
    read_news,
    read_settled,
    read_told,
)
from antiphon.runs.elsewhere.verbs import VERBS, ClaimCall, ReleaseClaim, SteerRun, Verb, read_verb
from antiphon.runs.held.calls import Injected
from antiphon.runs.run import CreatorConnection
from antiphon.runs.steering.settled import SteerSettled, SteerTaken

text = st.text(st.characters(codec="utf-8"), max_size=20)
whole = st.integers(0, 2**53)
json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
principals = st.builds(Principal, text, text, st.sampled_from(("viewer", "driver", "operator", "admin")), text)
senders = st.builds(Sender, text, text, st.none() | text)
connections = st.builds(CreatorConnection, text, st.none() | text, st.booleans(), st.booleans())
participants = st.builds(
    Participant,
    text,
    text,
    st.sampled_from(("viewer", "driver", "operator", "admin")),
    st.none() | text,
    st.dictionaries(text, st.dictionaries(text, text, max_size=2), max_size=2),
    st.dictionaries(text, text, max_size=2),
    st.sampled_from(("watching", "typing", "executing")),
    st.none() | text,
)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "response_id": text,
    "principal": principals,
    "sender": senders,
    "reason": st.none() | text,
    "given": st.lists(json, max_size=3),
    "call_id": text,
    "steer_id": text,
    "connection": st.none() | connections,
    "stored_only": st.booleans(),
}
errors = st.builds(
    lambda cls, **fields: cls(**fields),
    st.sampled_from((AntiphonError, RequestError, StorageError, BusError, NodeGone)),
    message=text,
    code=st.sampled_from(("claim_held", "owner_unavailable", "server_error", "a_code_of_an_upstream")),
    status=st.integers(400, 599),
    param=st.none() | text,
    headers=st.dictionaries(text, text, max_size=2),
    extra=st.dictionaries(text, json, max_size=2),
)


@st.composite
def verbs(draw: st.DrawFn) -> Verb[Any]:
    verb = draw(st.sampled_from(sorted(VERBS.values(), key=lambda verb: verb.kind)))
    fields = dict(_FIELDS)
    fields["fence"] = whole if verb is not ClaimCall else st.none() | whole
    fields["lease_ms"] = st.none() | whole
    if verb is SteerRun:
        fields["given"] = json
    return verb(**{field.name: draw(fields[field.name]) for field in dataclasses.fields(verb)})  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """For comparison: a connection is equal to itself only."""
    return dataclasses.asdict(value)


def told(error: AntiphonError) -> tuple[Any, ...]:
    """All that a client is told of an error."""
    return error.code, error.status, error.message, error.param, error.headers, error.extra, error.retryable


@given(verbs())
def test_a_verb_arrives_as_it_was_sent(verb: Verb[Any]) -> None:
    read = read_verb(verb.kind, verb.pack())
    assert (type(read), plain(read)) == (type(verb), plain(verb))


def test_a_verb_of_a_later_version_is_unknown() -> None:
    with pytest.raises(KeyError):
        read_verb("run.pause", b"{}")


@given(errors)
def test_an_error_arrives_as_what_it_was(error: AntiphonError) -> None:
    read = read_error(pack_error(error))
    assert (type(read), told(read)) == (type(error), told(error))


@pytest.mark.parametrize(
    "error", [Draining("going"), UpstreamError("broke", code="upstream_error", http_status=500)]
)
def test_an_error_of_another_kind_arrives_with_its_code_and_status(error: AntiphonError) -> None:
    assert told(read_error(pack_error(error))) == told(error)


@given(whole, st.booleans(), st.none() | errors)
def test_the_answer_to_an_inject_arrives(number: int, duplicate: bool, error: AntiphonError | None) -> None:
    read = read_injected(pack_injected(Injected(number, duplicate, error)))
    assert (read.sequence_number, read.duplicate) == (number, duplicate)
    assert (read.error and told(read.error)) == (error and told(error))


@given(st.builds(SteerSettled, text, text, st.sampled_from(("pending", "failed", "applied")), whole, text))
def test_what_became_of_a_steer_arrives(settled: SteerSettled) -> None:
    assert read_settled(pack_settled(settled)) == settled


@given(errors)
def test_why_a_steer_failed_arrives(error: AntiphonError) -> None:
    settled = SteerSettled("s", "r", "failed", 1, [{"role": "user"}], error, [{"call_id": "c"}])
    read = read_settled(pack_settled(settled))
    assert read.error is not None and told(read.error) == told(error)
    assert (read.given, read.required_input) == (settled.given, settled.required_input)


guests = st.builds(Guest, participants, st.booleans(), st.none() | st.booleans())


@given(
    st.builds(CompanyNews, text, st.booleans(), whole, st.lists(guests, max_size=3), st.lists(text, max_size=3))
)
def test_who_is_attached_arrives(news: CompanyNews) -> None:
    assert read_news(pack_news(news)) == news


@given(st.none() | st.dictionaries(text, json, max_size=3))
def test_the_answer_to_who_is_attached_arrives(state: dict[str, Any] | None) -> None:
    assert read_told(pack_told(state)) == state


@given(st.binary(max_size=50))
def test_a_result_arrives_byte_for_byte(result: bytes) -> None:
    assert read_answer(pack_answer(Answer(result=result))) == Answer(result=result)


@given(errors)
def test_a_refusal_arrives(error: AntiphonError) -> None:
    read = read_answer(pack_answer(Answer(error=error)))
    assert read.error is not None and told(read.error) == told(error)


def test_that_a_run_has_moved_arrives() -> None:
    assert read_answer(pack_answer(Answer(moved=True))) == Answer(moved=True)


@given(text, text, whole, st.floats(0, 2**40))
def test_claims_and_taken_steers_arrive(one: str, two: str, number: int, at: float) -> None:
    verb = ClaimCall("r", Principal("p", "t", "driver"), Sender("p", "c"), "call")
    claim = Claim(one, two, number, at)
    assert verb.read_result(verb.pack_result(claim)) == claim
    steer = SteerRun("r", verb.principal, "s", "more")
    taken = SteerTaken(one, two, number, None)
    assert steer.read_result(steer.pack_result(taken)) == taken
    released = ReleaseClaim("r", verb.principal, verb.sender, "call", 1)
    released.read_result(released.pack_result(None))
