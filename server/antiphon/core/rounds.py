"""What follows a round of the tool loop: pure decisions, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from antiphon.core.assembly.item import OUTPUT_TYPES, OpenItem
from antiphon.core.assembly.outcome import Outcome

Step = Literal["done", "continue", "client_action", "incomplete"]

MAX_TOOL_ROUNDS = "max_tool_rounds"
"""Reason of a response that was still calling tools on its last round."""

_MAX_COUNT = 2**53 - 1


def classify(items: Sequence[OpenItem], outcome: Outcome, round_number: int, max_rounds: int) -> Step:
    """What follows a round. items: of this round. round_number: from 1.

    `client_action`: a client has to answer; the server's own calls of the round are still executed.
    `incomplete`: so are the calls of the last allowed round, but there is no round to use them in.
    A round that ended incomplete or failed executes nothing.
    """
    if outcome.status != "completed":
        return "done"
    if any(item.owner in ("client", "approver") for item in open_calls(items)):
        return "client_action"
    if not server_calls(items):
        return "done"
    return "incomplete" if round_number >= max_rounds else "continue"


def server_calls(items: Sequence[OpenItem]) -> list[OpenItem]:
    """The finished calls that the server has to make, in output order."""
    return [item for item in items if item.owner == "server" and item.status == "completed" and item.done is None]


def open_calls(items: Sequence[OpenItem]) -> list[OpenItem]:
    """Finished calls nobody has answered yet, in output order."""
    answered = {item.call_id for item in items if item.type in OUTPUT_TYPES}
    answered |= {item.approval_request_id for item in items if item.approval_request_id is not None}
    return [
        item
        for item in items
        if item.owner != "nobody"
        and item.status == "completed"
        and item.result is None
        and item.call_id not in answered
    ]


def next_tool_choice(choice: Any) -> Any:
    """The choice from the second round on, else a forced call is forced for ever. Allowed tools stay."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": "auto"}
    return "none" if choice == "none" else "auto"


def add_usage(total: dict[str, Any] | None, more: dict[str, Any] | None) -> dict[str, Any] | None:
    """The sum of two usages as on the wire, None where nobody counted; counts stop at 2^53 - 1."""
    if total is None or more is None:
        return total if more is None else more
    return {
        key: add_usage(value, more[key]) if isinstance(value, dict) else min(value + more[key], _MAX_COUNT)
        for key, value in total.items()
    }
