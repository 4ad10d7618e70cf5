"""A chat's decisions: each word is shown once, each message, answer and steer done once, over any connections."""

from __future__ import annotations

import itertools
from typing import Any

from antiphon.cli.client.chat.one_at_a_time import OneAtATime
from antiphon.cli.client.chat.session import LANE, ChatSession
from antiphon.cli.client.chat.told import (
    Answered,
    Asked,
    Before,
    Began,
    Ended,
    Fatal,
    Heard,
    Later,
    Piece,
    Refused,
    Rewound,
    Told,
)
from antiphon.cli.client.questions import ASK_PERSON_TOOL

Frame = dict[str, Any]
CONNECTION = "conn_1"


class Terminal:
    """A session with one connection, and what it sent and told so far."""

    def __init__(self, **options: Any) -> None:
        ids = itertools.count(1)
        self.session = ChatSession(mint=lambda: f"id-{next(ids)}", tools=[ASK_PERSON_TOOL], **options)
        self.sent: list[Frame] = []
        self.told: list[Told] = []
        self.open()

    def open(self) -> None:
        self.sent.clear()
        self.session.opened(CONNECTION)
        self.note()

    def note(self) -> None:
        frames, told = self.session.out.drain()
        self.sent += frames
        self.told += told

    def say(self, text: str) -> None:
        self.session.say(text)
        self.note()

    def take(self, *frames: Frame) -> None:
        for frame in frames:
            self.session.take(frame)
        self.note()

    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.sent]

    def text(self) -> str:
        return "".join(one.text for one in self.told if isinstance(one, Piece))


def created(run_id: str, lane: str = LANE) -> Frame:
    return {"type": "response.created", "sequence_number": 0, "stream_id": lane, "response": {"id": run_id}}


def word(number: int, text: str, lane: str = LANE) -> Frame:
    kind = "response.output_text.delta"
    return {"type": kind, "sequence_number": number, "stream_id": lane, "item_id": "msg_1", "delta": text}


def end(number: int, status: str = "completed", lane: str = LANE, reason: str | None = None) -> Frame:
    response = {"status": status, "incomplete_details": {"reason": reason} if reason else None}
    kind = "response.completed" if status == "completed" else "response.incomplete"
    return {"type": kind, "sequence_number": number, "stream_id": lane, "response": response}


def state(run_id: str, revision: int = 1, **fields: Any) -> Frame:
    whole = {
        "response_id": run_id,
        "conversation_id": "conv_1",
        "epoch": "e1",
        "revision": revision,
        "principal": "user:anna",
        "state": "running",
        "pending_calls": [],
        "resolved_calls": [],
        "steers": [],
    }
    return {"type": "antiphon:run", "response_id": run_id, "state": whole | fields}


def attached(run_id: str, lane: str, mode: str = "replay", **fields: Any) -> Frame:
    frame = {"type": "antiphon:attached", "id": f"attach:{run_id}", "response_id": run_id, "stream_id": lane}
    return frame | {"epoch": "e1", "head": 9, "mode": mode, "recovered": True} | fields


def in_an_answer(**options: Any) -> Terminal:
    """A terminal that was told half an answer."""
    terminal = Terminal(**options)
    terminal.say("hello")
    terminal.take(created("resp_1"), state("resp_1"), word(1, "one "), word(2, "two "))
    return terminal


def test_a_message_that_no_connection_brought_through_is_sent_again_as_the_same_create() -> None:
    terminal = Terminal(model="antiphon/echo")
    terminal.say("hello")
    first = terminal.sent[0]
    terminal.open()
    assert terminal.sent == [first] and first["idempotency_key"] == "id-1"


def test_an_answer_goes_on_after_the_last_event_and_what_comes_twice_is_shown_once() -> None:
    terminal = in_an_answer()
    terminal.open()
    assert terminal.sent[0] == {
        "type": "antiphon:attach",
        "id": "attach:resp_1",
        "response_id": "resp_1",
        "after": 2,
        "epoch": "e1",
    }
    terminal.take(attached("resp_1", "att.1"), word(2, "two ", "att.1"), word(3, "three", "att.1"))
    terminal.take(end(4, lane="att.1"))
    assert terminal.text() == "one two three"
    terminal.say("and then?")
    assert terminal.sent[-1]["previous_response_id"] == "resp_1"


def test_an_event_that_is_missing_is_fetched_by_attaching_once() -> None:
    terminal = in_an_answer()
    terminal.take(word(4, "four"), word(5, "five"))
    assert [frame["after"] for frame in terminal.sent if frame.get("id") == "attach:resp_1"] == [2]
    terminal.take(attached("resp_1", "att.1"), *(word(n, f"{n} ", "att.1") for n in (3, 4, 5)))
    assert terminal.text() == "one two 3 4 5 "


def test_words_the_server_lost_are_told_and_the_answer_goes_on_from_the_fork() -> None:
    terminal = in_an_answer()
    terminal.open()
    error = {"type": "antiphon:error", "id": "attach:resp_1", "code": "epoch_changed", "message": "changed"}
    terminal.take(error | {"retryable": False, "epoch": "e2", "fork": 2})
    assert Rewound("resp_1") in terminal.told
    assert (terminal.sent[-1]["after"], terminal.sent[-1]["epoch"]) == (1, "e2")


def test_a_run_that_ended_while_nobody_could_see_it_is_shown_to_its_end() -> None:
    terminal = in_an_answer()
    terminal.open()
    terminal.take(
        attached("resp_1", "att.1", "ended", response={"status": "failed", "error": {"code": "server_lost"}})
    )
    assert terminal.told[-1] == Ended("resp_1", "failed", "server_lost", None)
    assert not terminal.session.is_busy


def test_what_is_typed_into_an_answer_steers_it_and_is_sent_again_only_if_it_did_not_get_through() -> None:
    terminal = in_an_answer()
    terminal.say("shorter")
    terminal.say("in French")
    assert [frame["input"] for frame in terminal.sent if frame["type"] == "response.steer"] == [
        "shorter",
        "in French",
    ]
    terminal.open()
    got = state("resp_1", 2, steers=[{"id": "steer_1", "stage": "accepted", "principal": "user:anna"}])
    terminal.take(attached("resp_1", "att.1", state=got["state"]))
    assert [frame["input"] for frame in terminal.sent if frame["type"] == "response.steer"] == ["in French"]
    assert terminal.told.count(Heard("resp_1")) == 1


def test_what_is_typed_as_the_answer_ends_becomes_the_next_message() -> None:
    terminal = in_an_answer()
    terminal.say("thanks")
    steer = {"previous_response_id": "resp_1", "input": "thanks"}
    error = {"type": "invalid_request_error", "code": "response_already_completed", "message": "over"}
    terminal.take({"type": "response.steer.failed", "sequence_number": 3, "steer": steer, "error": error})
    assert terminal.kinds().count("response.create") == 1, "its end was not seen yet"
    terminal.take(end(3))
    assert terminal.sent[-1]["type"] == "response.create" and terminal.sent[-1]["input"] == "thanks"
    assert terminal.sent[-1]["previous_response_id"] == "resp_1"


def test_the_run_that_follows_a_steered_one_is_followed_and_hears_what_was_typed_between_them() -> None:
    terminal = in_an_answer()
    terminal.take(end(3, "incomplete", reason="steered"))
    terminal.say("and again")
    assert terminal.kinds().count("response.steer") == 0
    terminal.take(created("resp_2"))
    assert terminal.sent[-1] == {"type": "response.steer", "previous_response_id": "resp_2", "input": "and again"}
    assert Began("resp_2", True, None) in terminal.told


def test_a_cancel_before_the_run_has_an_id_is_sent_when_it_has_one_and_on_every_connection() -> None:
    terminal = Terminal()
    terminal.say("hello")
    assert terminal.session.cancel()
    terminal.take(created("resp_1"))
    assert terminal.sent[-1]["type"] == "antiphon:cancel"
    terminal.open()
    assert "antiphon:cancel" in terminal.kinds()
    terminal.take(attached("resp_1", "att.1"), end(1, "cancelled", "att.1", "cancelled"))
    terminal.open()
    assert "antiphon:cancel" not in terminal.kinds()


def held(terminal: Terminal) -> None:
    item = {"type": "function_call", "call_id": "call_1", "name": "ask_person", "arguments": '{"question":"Tea?"}'}
    done = {"type": "response.output_item.done", "sequence_number": 3, "stream_id": LANE, "item": item}
    pending = {"call_id": "call_1", "name": "ask_person", "kind": "function", "eligible": [CONNECTION]}
    terminal.take(done, state("resp_1", 2, pending_calls=[pending | {"deadline": 1.0}]))


def test_an_answer_to_a_call_is_sent_until_it_is_acknowledged_always_as_the_same_result() -> None:
    terminal = in_an_answer()
    held(terminal)
    asked = [one.question for one in terminal.told if isinstance(one, Asked)]
    assert [question.lines for question in asked] == [["Tea?"]]
    terminal.session.answer(asked[0], "Yes.")
    terminal.note()
    inject = terminal.sent[-1]
    assert inject["input"][0] | {"antiphon": None} == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "Yes.",
        "antiphon": None,
    }
    terminal.open()
    assert inject in terminal.sent
    terminal.take({"type": "response.inject.created", "sequence_number": 3, "response_id": "resp_1"})
    terminal.open()
    assert inject not in terminal.sent


def test_a_question_that_somebody_else_answered_is_taken_away_and_says_who() -> None:
    terminal = in_an_answer()
    held(terminal)
    question = terminal.session.questions[0]
    resolved = [{"call_id": "call_1", "by": "user:bob", "at": 2.0}]
    terminal.take(state("resp_1", 3, resolved_calls=resolved))
    assert terminal.told[-1] == Answered(question, "user:bob") and terminal.session.questions == []


def test_a_message_that_was_refused_comes_back_with_what_was_typed_behind_it() -> None:
    terminal = Terminal()
    terminal.say("hello")
    terminal.say("are you there?")
    error = {"code": "too_many_runs", "message": "Wait a while."}
    terminal.take({"type": "error", "status": 429, "stream_id": LANE, "error": error})
    assert terminal.told == [Refused("too_many_runs", "Wait a while.", "hello\nare you there?")]
    assert not terminal.session.is_busy


def test_a_message_that_a_draining_server_refused_is_sent_later_and_is_not_lost() -> None:
    terminal = Terminal()
    terminal.say("hello")
    create = terminal.sent[0]
    error = {"code": "server_draining", "message": "Later."}
    terminal.take({"type": "error", "status": 503, "stream_id": LANE, "error": error})
    assert terminal.told == [Later(create)] and terminal.session.is_busy


def listing(*states: Frame) -> Frame:
    runs = [one["state"] for one in states]
    return {"type": "antiphon:attached", "id": "conversation", "conversation_id": "conv_1", "runs": runs}


def test_a_conversation_is_come_back_to_with_its_history_and_an_unknown_one_is_said_to_be_so() -> None:
    terminal = Terminal(conversation_id="conv_1")
    assert not terminal.session.is_ready
    terminal.take(listing(state("resp_0", state="completed")))
    assert terminal.told == [Before("resp_0", is_ended=True)] and terminal.session.is_ready
    terminal = Terminal(conversation_id="conv_2")
    error = {"type": "antiphon:error", "id": "conversation", "code": "conversation_not_found", "message": "No."}
    terminal.take(error | {"retryable": False})
    assert terminal.told == [Fatal("conversation_not_found", "No.")]


def test_what_others_said_while_this_terminal_was_cut_off_is_read_from_its_beginning_once() -> None:
    terminal = in_an_answer()
    terminal.take(listing(state("resp_1"), state("resp_0", state="completed")), end(3))
    terminal.open()
    terminal.take(listing(state("resp_2", state="completed")))
    assert [frame["after"] for frame in terminal.sent if frame.get("id") == "attach:resp_2"] == ["start"]
    terminal = in_an_answer()
    terminal.take(listing(state("resp_1"), state("resp_0", state="completed")), end(3))
    terminal.open()
    terminal.take(listing(state("resp_0", state="completed")))
    assert not [frame for frame in terminal.sent if frame.get("id") == "attach:resp_0"], "it is history"


def test_a_run_of_somebody_else_is_shown_after_the_one_that_is_being_shown() -> None:
    order = OneAtATime()
    mine, theirs = Piece("resp_1", "msg_1", "mine"), Piece("resp_2", "msg_2", "theirs")
    began, over = Began("resp_2", False, "user:bob"), Ended("resp_1", "completed")
    shown = [one for told in (mine, began, theirs, mine, over, theirs) for one in order.add(told)]
    assert shown == [mine, mine, over, began, theirs, theirs]
