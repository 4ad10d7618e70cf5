"""Held calls on their way: put to the person once, answered once, over any number of connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from antiphon.cli.client.chat.outgoing import TRANSIENT, Frame, Outgoing
from antiphon.cli.client.chat.run import ChatRun
from antiphon.cli.client.chat.told import Answered, Asked, Later, Refused
from antiphon.cli.client.questions import Question


@dataclass(frozen=True, slots=True)
class _Sent:
    """An answer the server has not acknowledged. Its `result_id` makes a repeat recognisable (7.4.6)."""

    question: Question
    frame: Frame


class Desk:
    """questions: those that wait for the person, oldest first. tools: names this terminal answers."""

    def __init__(self, out: Outgoing, mint: Callable[[], str], tools: frozenset[str]) -> None:
        self._out = out
        self._mint = mint
        self._tools = tools
        self._seen: set[str] = set()
        self._sent: list[_Sent] = []
        self.questions: list[Question] = []

    def look(self, run: ChatRun, connection: str) -> None:
        """Something about this run is new: ask what it waits for, take away what it does not wait for any more."""
        for question in run.questions(connection, self._tools):
            if question.call_id not in self._seen:
                self._seen.add(question.call_id)
                self.questions.append(question)
                self._out.tell(Asked(question))
        for question in [one for one in self.questions if one.run_id == run.id]:
            if not run.is_pending(question.call_id):
                self.questions.remove(question)
                self._out.tell(Answered(question, run.answered_by(question.call_id)))

    def answer(self, question: Question, line: str) -> None:
        """Send an answer. Raises Unanswerable, and nothing happened."""
        item = question.answer(line) | {"antiphon": {"result_id": self._mint()}}
        frame = {"type": "response.inject", "response_id": question.run_id, "input": [item]}
        self.questions = [one for one in self.questions if one.call_id != question.call_id]
        self._sent.append(_Sent(question, frame))
        self._out.send(frame)

    def again(self) -> None:
        """A new connection: what was not acknowledged is sent again."""
        self._out.send(*(sent.frame for sent in self._sent))

    def acknowledged(self, frame: Frame) -> None:
        """An answer was taken. A connection's answers are answered in their order."""
        self._take_out(str(frame["response_id"]), None)

    def refused(self, frame: Frame) -> None:
        """An answer was not taken."""
        sent = self._take_out(str(frame["response_id"]), frame["input"])
        code, message = str(frame["error"]["code"]), str(frame["error"]["message"])
        if sent is not None and code in TRANSIENT:
            self._sent.append(sent)
            self._out.tell(Later(sent.frame))
        else:
            self._out.tell(Refused(code, message))

    def _take_out(self, run_id: str, given_back: Any) -> _Sent | None:
        for sent in self._sent:
            if sent.question.run_id == run_id and given_back in (None, sent.frame["input"]):
                self._sent.remove(sent)
                return sent
        return None
