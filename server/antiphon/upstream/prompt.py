"""What built-in models read of a request: the last words of the user, tools, and answers of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.errors import UpstreamError

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of a request body that a built-in model looks at."""

    items: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    tool_choice: Any = "auto"

    @classmethod
    def read(cls, body: bytes) -> Prompt:
        """Raises UpstreamError if the body is no JSON object."""
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise UpstreamError("The request is not JSON.", status=400) from error
        if not isinstance(request, dict):
            raise UpstreamError("The request is not a JSON object.", status=400)
        given = request.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = request.get("tools") or []
        return cls(
            [item for item in items if isinstance(item, dict)],
            [tool for tool in tools if isinstance(tool, dict)],
            request.get("tool_choice", "auto"),
        )

    @property
    def user_text(self) -> str:
        """The text of the last message of the user."""
        last = next((item for item in reversed(self.items) if item.get("role") == "user"), None)
        return text_of(last.get("content")) if last else ""

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The tool outputs at the end of the input, in order: the tool's name, empty if unknown, and the text."""
        found: list[dict[str, Any]] = []
        for item in reversed(self.items):
            if not is_output(item):
                break
            found.append(item)
        return self._named(reversed(found))

    @property
    def outputs_since_user(self) -> list[tuple[str, str]]:
        """The same of all that tools said since the user last spoke."""
        spoken = [index for index, item in enumerate(self.items) if item.get("role") == "user"]
        since = self.items[spoken[-1] + 1 :] if spoken else self.items
        return self._named(filter(is_output, since))

    def _named(self, outputs: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
        names = {item.get("call_id"): str(item.get("name")) for item in self.items if item.get("name")}
        return [(names.get(item.get("call_id"), ""), text_of(item.get("output"))) for item in outputs]

    @property
    def round(self) -> int:
        """How many times tools have answered since the user last spoke."""
        count, inside = 0, False
        for item in reversed(self.items):
            if item.get("role") == "user":
                break
            count += is_output(item) and not inside
            inside = is_output(item)
        return count

    def usage(self, output_words: int) -> dict[str, int]:
        """Words counted as tokens."""
        read = sum(len(text_of(item.get("content") or item.get("output")).split()) for item in self.items)
        return {"input_tokens": read, "output_tokens": output_words}


def is_output(item: dict[str, Any]) -> bool:
    """Whether an input item answers a call."""
    return str(item.get("type")).endswith("_output")


def text_of(content: Any) -> str:
    """The text of a message's content or of a tool's output, whether plain or in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return "" if content is None else orjson.dumps(content).decode()


def words_of(text: str) -> list[str]:
    """Words with the white space after them; joined they are the text."""
    return _WORDS.findall(text)
