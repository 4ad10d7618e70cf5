"""Held calls a person at a terminal can answer: how they are put, and what an answer becomes (PROTOCOL 7.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.cli.client.printable import one_line, printable

ASK_PERSON = "ask_person"
ASK_PERSON_TOOL: dict[str, Any] = {
    "type": "function",
    "name": ASK_PERSON,
    "description": "Asks the person you talk with, and waits for the answer. For what only they know or decide.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "choices": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Likely answers, a few words",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
}
"""What every chat in a terminal can do for the model."""

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


def declared(name: str) -> dict[str, Any]:
    """A tool the person answers by hand, whatever its arguments are."""
    return {
        "type": "function",
        "name": name,
        "description": "Answered by a person at a terminal.",
        "strict": False,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": True},
    }


class Unanswerable(ValueError):
    """The line is no answer to the question; the text says what would be one."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits. kind: `function`, `custom` or `approval`. arguments: as the log shows them.

    deadline: Unix seconds, None where nobody said.
    """

    run_id: str
    call_id: str
    name: str
    kind: str
    arguments: str
    deadline: float | None = None

    @property
    def lines(self) -> list[str]:
        """What the person is asked."""
        if self.kind == "approval":
            return [f"May it call {one_line(self.name)}({one_line(self.arguments)})?"]
        if self.name == ASK_PERSON and (asked := self._asked()):
            choices = [f"  {n}  {one_line(choice)}" for n, choice in enumerate(self.choices, 1)]
            return [printable(asked), *choices]
        return [f"It calls {one_line(self.name)}({one_line(self.arguments, 2000)}) and waits for what you say."]

    @property
    def hint(self) -> str:
        """What may be typed, in a word or two."""
        if self.kind == "approval":
            return "y/n"
        if self.name == ASK_PERSON:
            return "answer, or a number" if self.choices else "answer"
        return "answer, text or JSON"

    @property
    def choices(self) -> list[str]:
        given = self._arguments().get("choices")
        return [str(choice) for choice in given] if isinstance(given, list) else []

    def answer(self, line: str) -> dict[str, Any]:
        """The item that answers. Raises Unanswerable."""
        said = line.strip()
        if self.kind == "approval":
            if said.lower() not in _YES | _NO:
                raise Unanswerable("Say y or n.")
            approve = said.lower() in _YES
            return {"type": "mcp_approval_response", "approval_request_id": self.call_id, "approve": approve}
        kind = "custom_tool_call_output" if self.kind == "custom" else "function_call_output"
        return {"type": kind, "call_id": self.call_id, "output": self._output(said)}

    def _output(self, said: str) -> str:
        if self.name == ASK_PERSON:
            chosen = int(said) if said.isdecimal() and len(said) < 4 else 0
            return self.choices[chosen - 1] if 1 <= chosen <= len(self.choices) else said
        if said[:1] in ("{", "[", '"'):
            try:
                orjson.loads(said)
            except orjson.JSONDecodeError as error:
                raise Unanswerable(f"That is no JSON: {error}.") from error
        return said

    def _asked(self) -> str:
        asked = self._arguments().get("question")
        return asked if isinstance(asked, str) else ""

    def _arguments(self) -> dict[str, Any]:
        try:
            found = orjson.loads(self.arguments)
        except orjson.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}
