"""Steering: words for a run in progress, kept until it ends and then continued with (PROTOCOL 7.3).

Pure: whoever owns the run asks when it may be cut short and acts on what its end means for the steers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from antiphon.core.assembly.outcome import Outcome
from antiphon.core.history import OpenCall
from antiphon.errors import RequestError
from antiphon_protocol.codes import INCOMPLETE_REASONS

Stage = Literal["accepted", "pending", "applied", "failed"]
Settlement = Literal["none", "successor", "pending", "failed"]

MAX_STEERS = 32
"""Steers one run takes; all of them wait for its end."""

STEERED = Outcome("incomplete", reason="steered")
"""The end of a run that was cut short so that its steers are heard."""

_LEADS_ON = frozenset({"steered", "max_tool_rounds", "loop_detected"})
"""Reasons of ours after which what was said meanwhile is still heard. Who has nothing left to spend is not."""

_PARTS = frozenset({"input_text", "input_image", "input_file"})
_MESSAGE_KEYS = frozenset({"type", "role", "content"})


@dataclass(slots=True, eq=False)
class Steer:
    """One steering message. given: the input as it was sent. items: the same as input items.

    principal: who sent it. pending: its target ended on calls of the client. applied: it stands in the input of a
    response.
    """

    id: str
    principal: str
    given: str | list[Any]
    items: tuple[dict[str, Any], ...]
    stage: Stage = "accepted"

    def row(self) -> dict[str, Any]:
        """As RunState shows it."""
        return {"id": self.id, "stage": self.stage, "principal": self.principal}


class SteerBook:
    """The steers of one run, in the order in which they were taken."""

    def __init__(self, steers: Iterable[Steer] = ()) -> None:
        self._steers = list(steers)
        self._settled = False

    def __iter__(self) -> Iterator[Steer]:
        return iter(self._steers)

    def __len__(self) -> int:
        return len(self._steers)

    @property
    def waiting(self) -> bool:
        """Whether the run should end at its next safe point."""
        return bool(self._steers) and not self._settled

    def add(self, steer_id: str, principal: str, given: Any) -> Steer:
        """Take a steer. Raises RequestError `response_not_active`, `too_many_pending_steers`, `invalid_input`."""
        items = steer_items(given)
        if self._settled:
            raise RequestError("The response takes no more steering.", code="response_not_active")
        if len(self._steers) >= MAX_STEERS:
            raise RequestError(
                f"{MAX_STEERS} steering messages wait for this response already.", code="too_many_pending_steers"
            )
        steer = Steer(steer_id, principal, given, items)
        self._steers.append(steer)
        return steer

    def withdraw(self, steer: Steer) -> bool:
        """Forget a steer as if it had never been taken; False if the end of the run has made something of it."""
        if self._settled:
            return False
        self._steers.remove(steer)
        return True

    def settle(self, outcome: Outcome, open_calls: bool) -> Settlement:
        """The run's end is decided: what that means for its steers, told once. Their stage changes with it.

        Open calls have to be answered first, and only the client can do that. What failed or was ended on purpose
        is not continued by itself.
        """
        before, self._settled = self._settled, True
        if before or not self._steers:
            return "none"
        if not _goes_on(outcome):
            self._move("failed")
            return "failed"
        self._move("pending" if open_calls else "applied")
        return "pending" if open_calls else "successor"

    def apply(self) -> None:
        """Pending steers became part of a response."""
        self._move("applied")

    def fail(self) -> None:
        """They became part of nothing."""
        self._move("failed")

    def items(self) -> list[dict[str, Any]]:
        """What all of them say, as input items."""
        return [item for steer in self._steers for item in steer.items]

    def rows(self) -> list[dict[str, Any]]:
        """As RunState shows them."""
        return [steer.row() for steer in self._steers]

    def snapshot(self) -> list[dict[str, Any]]:
        """What `restored` needs, as JSON values: for the checkpoint of a run that waits."""
        return [{"id": steer.id, "principal": steer.principal, "given": steer.given} for steer in self._steers]

    @classmethod
    def restored(cls, snapshot: Iterable[dict[str, Any]]) -> SteerBook:
        """The book of a run whose process died while its steers waited."""
        return cls(Steer(**kept, items=steer_items(kept["given"])) for kept in snapshot)

    def _move(self, stage: Stage) -> None:
        for steer in self._steers:
            steer.stage = stage


def _goes_on(outcome: Outcome) -> bool:
    if outcome.status == "incomplete":
        return outcome.reason in _LEADS_ON or outcome.reason not in INCOMPLETE_REASONS
    return outcome.status == "completed"


def steer_items(given: Any) -> tuple[dict[str, Any], ...]:
    """The input of a steer as items: a text, or user messages of texts, images and files.

    Raises RequestError `invalid_input`.
    """
    if isinstance(given, str) and given:
        return ({"type": "message", "role": "user", "content": given},)
    if not isinstance(given, list) or not given:
        raise _invalid("input is a text or a list of user messages, and not empty.", "input")
    return tuple(_message(item, f"input[{index}]") for index, item in enumerate(given))


def _message(item: Any, place: str) -> dict[str, Any]:
    if not isinstance(item, dict) or item.get("type", "message") != "message":
        raise _invalid("Only user messages can steer; bring outputs of tools in a create.", place)
    if item.get("role") != "user":
        raise _invalid("Only messages of the role user can steer.", f"{place}.role")
    if extra := item.keys() - _MESSAGE_KEYS:
        raise _invalid("A message that steers has type, role and content only.", f"{place}.{min(extra)[:80]}")
    content = item.get("content")
    if not isinstance(content, (str, list)) or not content:
        raise _invalid("A message needs content: a text or a list of parts.", f"{place}.content")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _check_part(part, f"{place}.content[{index}]")
    return {"type": "message", "role": "user", "content": content}


def _check_part(part: Any, place: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _PARTS:
        raise _invalid("A part is an input_text, input_image or input_file.", place)
    if kind == "input_text" and not isinstance(part.get("text"), str):
        raise _invalid("An input_text has a text.", f"{place}.text")


def _invalid(message: str, place: str) -> RequestError:
    return RequestError(message, code="invalid_input", param=place)


def required_input(calls: Sequence[OpenCall]) -> list[dict[str, Any]]:
    """What a client has to fill in and send before pending steers are heard: one stub for each open call."""
    return [_stub(call) for call in calls]


def _stub(call: OpenCall) -> dict[str, Any]:
    if call.type == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": call.call_id}
    if call.type == "tool_search_call":
        return {"type": "tool_search_output", "call_id": call.call_id, "execution": "client"}
    stub = {"type": f"{call.type}_output", "call_id": call.call_id}
    return {**stub, "name": call.name} if call.type == "function_call" else stub
