"""What is said to a run that goes on: each text gets there once, or comes back to the person (PROTOCOL 7.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon.cli.client.chat.outgoing import TRANSIENT, Frame, Outgoing
from antiphon.cli.client.chat.run import ChatRun
from antiphon.cli.client.chat.told import Heard, Later, Refused

_RUN_IS_OVER = frozenset({"response_already_completed", "response_not_active"})


@dataclass(frozen=True, slots=True)
class _Sent:
    """A text the server has not answered. known: ids of the steers the run had before.

    A steer has no id of the client's: whether one was taken on a connection that is gone is told by the steers
    that the run has now and did not have then.
    """

    run_id: str
    text: str
    known: frozenset[str]

    @property
    def frame(self) -> Frame:
        return {"type": "response.steer", "previous_response_id": self.run_id, "input": self.text}


class Steering:
    """The texts on their way, oldest first: a connection answers them in that order."""

    def __init__(self, out: Outgoing) -> None:
        self._out = out
        self._sent: list[_Sent] = []

    def steer(self, run: ChatRun, text: str) -> None:
        sent = _Sent(run.id, text, run.steers)
        self._sent.append(sent)
        self._out.send(sent.frame)

    def accepted(self, frame: Frame) -> None:
        """The oldest text for this run was taken."""
        run_id = str(frame["steer"]["previous_response_id"])
        self._take_out(run_id, 1, frozenset({str(frame["steer"]["id"])}))
        self._out.tell(Heard(run_id))

    def refused(self, frame: Frame) -> tuple[str, str] | None:
        """A text came back. Gives the run and the text if it was over before the text reached it."""
        steer, code = frame["steer"], str(frame["error"]["code"])
        run_id, text = str(steer["previous_response_id"]), str(steer["input"])
        sent = next((one for one in self._sent if one.run_id == run_id and one.text == text), None)
        if sent is not None and code in TRANSIENT:
            self._out.tell(Later(sent.frame))
            return None
        if sent is not None:
            self._sent.remove(sent)
            if code in _RUN_IS_OVER:
                return run_id, text
        self._out.tell(Refused(code, str(frame["error"]["message"]), text))
        return None

    def again(self, run: ChatRun) -> list[str]:
        """A new connection is attached to this run: texts that did not get through are sent again.

        Gives those of a run that is over: they are not for it any more.
        """
        mine = [sent for sent in self._sent if sent.run_id == run.id]
        through = run.steers - mine[0].known if mine else frozenset()
        self._take_out(run.id, len(through), through)
        self._out.tell(*[Heard(run.id)] * min(len(through), len(mine)))
        lost = [sent for sent in self._sent if sent.run_id == run.id]
        if not run.is_over:
            self._out.send(*(sent.frame for sent in lost))
            return []
        self._sent = [sent for sent in self._sent if sent.run_id != run.id]
        return [sent.text for sent in lost]

    def _take_out(self, run_id: str, count: int, ids: frozenset[str]) -> None:
        mine = [sent for sent in self._sent if sent.run_id == run_id]
        others = [sent for sent in self._sent if sent.run_id != run_id]
        self._sent = others + [replace(sent, known=sent.known | ids) for sent in mine[count:]]
