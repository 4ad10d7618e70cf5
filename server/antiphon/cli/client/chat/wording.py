"""How a chat's remarks read."""

from __future__ import annotations

from antiphon.cli.client.chat.told import Called, Ended
from antiphon.cli.client.printable import one_line, printable

_REASONS = {
    "cancelled": "stopped",
    "tool_deadline": "stopped: nobody answered its call in time",
    "max_tool_rounds": "stopped: too many rounds of tools",
    "loop_detected": "stopped: it repeated itself",
    "budget_exceeded": "stopped: the budget is spent",
    "quota_exceeded": "stopped: the quota is used up",
    "max_output_tokens": "cut: the answer was too long",
    "content_filter": "cut by the model's content filter",
    "server_lost": "lost: the server went away in the middle of it",
}

HELP = """\
Type and press Enter. While an answer is under way, what you type steers it.
  /new          begin a new conversation
  /model NAME   answer with another model from now on; without a name, list them
  /where        how to come back to this conversation
  /quit         leave (so do Ctrl-D, and Ctrl-C when nothing is running)
Ctrl-C stops the answer that is under way."""


def ended(told: Ended) -> str | None:
    """The remark under an answer; None where nothing is worth saying."""
    if told.status == "completed" or told.code == "steered":
        return None
    words = _REASONS.get(told.code or "") or f"{told.status}: {told.code}"
    return f"{words}. {one_line(told.message, 400)}" if told.message else words


def called(told: Called) -> str:
    """A call and what became of it, on one line."""
    call = f"{one_line(told.name)}({one_line(told.arguments, 120)})"
    if told.failed:
        return f"{call} failed"
    return call if told.output is None else f"{call} → {one_line(told.output, 120)}"


def quoted(who: str, text: str) -> list[str]:
    """What somebody said, line by line."""
    first, *rest = printable(text).split("\n")
    return [f"{one_line(who, 60)}> {first}", *(f"  {line}" for line in rest)]


def way_back(page: str, conversation_id: str, run_id: str | None) -> list[str]:
    """How to come back. run_id: of a run that goes on without this terminal."""
    lines = [] if run_id is None else [f"The answer goes on: antiphon chat --attach {run_id}"]
    return [*lines, f"Come back: antiphon chat --conversation {conversation_id}", f"In a browser: {page}"]
