"""What middlewares may do to a run, and what not (acceptance B and E of the contract, without a server)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from antiphon.core.principal import Principal
from antiphon.errors import (
    AntiphonError,
    Deny,
    Draining,
    HookError,
    RequestError,
    StorageError,
    Unauthorized,
    UpstreamError,
)
from antiphon.governance.hooks.passage import Change
from antiphon.hooks import Next, Reply, RunOutcome, RunRequest
from tests.hooks.hooking import (
    Uncaught,
    around,
    asked,
    dispatching,
    enter,
    noting,
    outcome,
    passing,
    refusal,
    shouting,
    soon,
)

FAILED = "A middleware of this server failed."


async def test_without_middlewares_the_request_is_the_one_that_was_given() -> None:
    async with around() as chain:
        request = asked()
        passage = await enter(chain, request)
        assert passage.request is request and passage.reply is None and passage.changes == []
        passage.end(outcome())
        passage.refuse(HookError("x"))
        passage.abandon()


async def test_middlewares_stand_around_the_run_in_order_and_hear_its_end() -> None:
    notes: list[str] = []
    async with around(noting(notes, "outer"), noting(notes, "inner")) as chain:
        passage = await enter(chain)
        assert notes == ["outer before", "inner before"]
        passage.end(outcome("incomplete"))
        await soon(lambda: len(notes) == 4)
    assert notes[2:] == ["inner incomplete", "outer incomplete"]


async def test_one_that_changes_nothing_leaves_the_request_as_it_was() -> None:
    async with around(passing) as chain:
        request = asked()
        assert (await enter(chain, request)).request is request


async def test_a_rewritten_text_is_passed_on_and_noted_by_name_without_content() -> None:
    async with around(passing, shouting) as chain:
        request = asked("hello")
        passage = await enter(chain, request)
    assert passage.request.texts() == ["HELLO"] and request.texts() == ["hello"]
    assert passage.changes == [Change("second", ("input",))]
    assert passage.changed == [{"by": "second", "fields": ["input"]}]


async def test_agent_and_model_can_be_rewritten_and_the_input_stays_the_same_object() -> None:
    async def rename(request: RunRequest, next: Next) -> RunOutcome:
        return await next(replace(request, agent="reviewer", model=None))

    async with around(rename) as chain:
        request = asked()
        passage = await enter(chain, request)
    assert (passage.request.agent, passage.request.model) == ("reviewer", None)
    assert passage.request.input is request.input
    assert passage.changes == [Change("first", ("agent", "model"))]


async def test_what_a_middleware_does_to_its_copy_counts_only_when_it_is_passed_on() -> None:
    async def scribble(request: RunRequest, next: Next) -> RunOutcome:
        untouched = replace(request, input=[dict(item) for item in request.input])
        request.input[0]["content"] = "scribbled"
        return await next(untouched)

    async def mutate(request: RunRequest, next: Next) -> RunOutcome:
        request.input[0]["content"] = "mutated"
        return await next(request)

    async with around(scribble) as chain:
        assert (await enter(chain)).changes == []
    async with around(mutate, passing) as chain:
        request = asked()
        passage = await enter(chain, request)
    assert passage.request.texts() == ["mutated"] and request.texts() == ["hello"]
    assert passage.changes == [Change("first", ("input",))]


def test_texts_are_those_of_messages_and_of_outputs_of_tools() -> None:
    request = asked(
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]},
            {"type": "function_call_output", "call_id": "c", "output": "b"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ]
    )
    assert request.texts() == ["a", "b"]
    assert request.with_texts(str.upper).input[0]["content"] == [
        {"type": "input_text", "text": "A"},
        {"type": "input_image"},
    ]


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("principal", Principal("user:bob", "other", "admin")),
        ("run_id", "resp_2"),
        ("origin", "websocket"),
        ("previous_response_id", "resp_0"),
        ("conversation", "conv_2"),
    ],
)
async def test_nothing_but_input_agent_and_model_can_be_rewritten(changed: str, value: Any) -> None:
    async def smuggle(request: RunRequest, next: Next) -> RunOutcome:
        return await next(replace(request, **{changed: value}))

    async with around(smuggle) as chain:
        error = await refusal(chain)
    assert (type(error), error.code, error.status, error.message) == (HookError, "server_error", 500, FAILED)


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param(None, id="nothing"),
        pytest.param("hello", id="a text"),
        pytest.param({"input": "hello"}, id="a dict"),
        pytest.param(asked(input="hello"), id="a text as input"),
        pytest.param(asked(input=["hello"]), id="texts as items"),
        pytest.param(asked(input=[{"content": object()}]), id="no JSON"),
        pytest.param(asked(agent=5), id="a number as agent"),
    ],
)
async def test_junk_that_is_passed_on_is_an_error(junk: Any) -> None:
    async def pass_junk(request: RunRequest, next: Next) -> RunOutcome:
        return await next(junk)

    async with around(pass_junk) as chain:
        assert (await refusal(chain)).message == FAILED


@pytest.mark.parametrize("junk", [None, True, "fine", {"allow": True}, outcome(), Deny], ids=str)
async def test_junk_that_is_returned_is_an_error_and_never_an_allow(junk: Any) -> None:
    async def give_junk(request: RunRequest, next: Next) -> Any:
        return junk

    async with around(passing, give_junk) as chain:
        error = await refusal(chain)
    assert (error.code, error.message) == ("server_error", FAILED)


async def test_next_twice_at_once_is_an_error() -> None:
    async def twice(request: RunRequest, next: Next) -> RunOutcome:
        first, _ = await asyncio.gather(next(request), next(request))
        return first

    async with around(twice) as chain:
        assert (await refusal(chain)).message == FAILED


async def test_next_once_more_after_the_run_is_an_error_that_starts_nothing() -> None:
    errors: list[AntiphonError] = []
    entered = 0

    async def again(request: RunRequest, next: Next) -> RunOutcome:
        ended = await next(request)
        try:
            await next(request)
        except AntiphonError as error:
            errors.append(error)
        return ended

    async def count(request: RunRequest, next: Next) -> RunOutcome:
        nonlocal entered
        entered += 1
        return await next(request)

    async with around(again, count) as chain:
        (await enter(chain)).end(outcome())
        await soon(lambda: bool(errors))
    assert errors[0].message == FAILED and entered == 1


async def test_a_deny_has_the_contracts_words_unless_it_brings_its_own() -> None:
    async def deny(request: RunRequest, next: Next) -> RunOutcome:
        raise Deny

    async def deny_by_return(request: RunRequest, next: Next) -> Deny:
        return Deny("no_weekends", "Come back on Monday.", 409)

    async with around(deny) as chain:
        error = await refusal(chain)
        assert (error.code, error.status, error.message) == ("denied", 403, "agent.run denied")
        assert error.headers == {"x-should-retry": "false"}
    async with around(deny_by_return) as chain:
        error = await refusal(chain)
        assert (error.code, error.status, error.message) == ("no_weekends", 409, "Come back on Monday.")


@pytest.mark.parametrize(("code", "status"), [("No Spaces", 403), ("", 403), ("fine", 200), ("fine", 600)])
def test_a_deny_that_would_read_as_something_else_cannot_be_made(code: str, status: int) -> None:
    with pytest.raises(ValueError, match="a deny"):
        Deny(code, "x", status)


ERRORS: list[AntiphonError] = [
    RequestError("Too much.", code="rate_limited", status=429, headers={"retry-after": "3"}),
    Unauthorized("Who?"),
    UpstreamError("Away.", code="upstream_unavailable", status=503),
    StorageError("Away."),
    Draining("Later."),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_error_of_ours_keeps_its_class_and_everything_on_it(error: AntiphonError) -> None:
    async def fail(request: RunRequest, next: Next) -> RunOutcome:
        raise error

    async with around(passing, fail) as chain:
        assert await refusal(chain) is error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_refusal_behind_the_middlewares_reaches_them_unchanged(error: AntiphonError) -> None:
    notes: list[str] = []
    async with around(noting(notes, "outer"), noting(notes, "inner")) as chain:
        (await enter(chain)).refuse(error)
        await soon(lambda: len(notes) == 4)
    assert notes[2:] == [f"inner {error.code}", f"outer {error.code}"]


async def test_nobody_turns_the_refusal_of_another_into_something_else() -> None:
    async def soften(request: RunRequest, next: Next) -> RunOutcome | Reply:
        try:
            return await next(request)
        except Deny:
            return Reply(text="All is well.")

    async def deny(request: RunRequest, next: Next) -> RunOutcome:
        raise Deny("no_weekends", "Come back on Monday.")

    async with around(soften, deny) as chain:
        assert (await refusal(chain)).code == "no_weekends"


async def test_a_crash_is_a_failure_whose_text_is_not_even_in_the_log() -> None:
    async def crash(request: RunRequest, next: Next) -> RunOutcome:
        raise KeyError(request.texts()[0])

    async def leave(request: RunRequest, next: Next) -> RunOutcome:
        raise SystemExit(1)

    async def slip_through(request: RunRequest, next: Next) -> RunOutcome:
        raise Uncaught

    for middleware in (crash, leave, slip_through):
        async with around(middleware) as chain:
            with capture_logs() as lines:
                error = await refusal(chain, asked("a secret plan"))
        assert (type(error), error.code, error.message) == (HookError, "server_error", FAILED)
        assert "at test_middleware.py:" in lines[0]["what"] and lines[0]["middleware"] == "first"
        assert "a secret plan" not in str(lines)


@pytest.mark.parametrize("reply", [Reply(text="42"), Reply(items=[{"type": "message", "role": "assistant"}])])
async def test_a_reply_takes_the_place_of_the_model(reply: Reply) -> None:
    notes: list[str] = []

    async def answer(request: RunRequest, next: Next) -> Reply:
        return reply

    async with around(noting(notes, "outer"), shouting, answer) as chain:
        passage = await enter(chain)
        assert passage.reply == reply and passage.by == "third" and passage.request.texts() == ["HELLO"]
        passage.end(outcome())
        await soon(lambda: len(notes) == 2)
    assert notes[1] == "outer completed"


@pytest.mark.parametrize(
    "given", [{}, {"text": "a", "items": [{"type": "x"}]}, {"items": []}, {"items": [{}]}, {"text": 5}], ids=repr
)
def test_a_reply_is_a_text_or_items(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="repl"):
        Reply(**given)


async def test_items_that_are_no_json_are_no_reply() -> None:
    async def answer(request: RunRequest, next: Next) -> Reply:
        return Reply(items=[{"type": "message", "content": object()}])

    async with around(answer) as chain:
        assert (await refusal(chain)).message == FAILED


async def test_only_a_request_goes_through() -> None:
    async with dispatching() as dispatcher:
        with pytest.raises(Exception, match="agent.run carries RunRequest, not str"):
            dispatcher.waterfall("agent.run", "hello")
