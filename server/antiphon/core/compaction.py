"""What a compaction keeps, what it replaces by a summary, and when one is due.

What users, systems and developers said stays word for word; what the model said, thought and called is summarised.
A call and its output are one unit: both are replaced or both stay, and nothing is replaced while a call is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES
from antiphon.core.history import answered_call_id
from antiphon.errors import RequestError

Item = dict[str, Any]

MIN_THRESHOLD_TOKENS = 1000
DEFAULT_THRESHOLD_TOKENS = 200_000
"""For a `context_management` entry that names none."""

BYTES_PER_TOKEN = 4
MEDIA_TOKENS = 1500
"""What an image or file counts in an estimate, however large it is."""

SEAL_PREFIX = "antiphon"
"""What a sealed history of ours begins with; all other content of compaction items is an upstream's."""

SUMMARY_HEAD = "Summary of the conversation so far (its history was compacted):\n\n"

_KEPT_ROLES = frozenset({"user", "system", "developer"})
_SUMMARISED_TYPES = (
    CALL_TYPES
    | OUTPUT_TYPES
    | {
        "reasoning",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "web_search_call",
        "file_search_call",
        "image_generation_call",
        "code_interpreter_call",
        "tool_search_call",
        "tool_search_output",
        "program",
        "program_output",
        "multi_agent_call",
        "multi_agent_call_output",
    }
)
_MEDIA_FIELDS = frozenset({"file_data", "result"})


@dataclass(frozen=True, slots=True)
class Plan:
    """How a history is compacted: `before`, then the summary of `summarised`, then `after`.

    after: what was said last and has no answer yet. size_tokens: an estimate of what the summary replaces.
    """

    before: list[Item]
    summarised: list[Item]
    after: list[Item]

    @property
    def size_tokens(self) -> int:
        return estimate_tokens(self.summarised)

    def with_summary(self, text: str) -> list[Item]:
        """The compacted history."""
        return [*self.before, summary_item(text), *self.after]


def has_trigger(items: Sequence[Item]) -> bool:
    """Whether an input asks for a compaction and nothing else. Raises RequestError for a wrong place."""
    for index, item in enumerate(items):
        if item.get("type") == "compaction_trigger" and index != len(items) - 1:
            raise RequestError("A compaction_trigger is the last item of an input.", param=f"input[{index}]")
    return bool(items) and items[-1].get("type") == "compaction_trigger"


def threshold_tokens(context_management: Any) -> int | None:
    """The lowest threshold a request sets, None if it wants no compaction. Raises RequestError."""
    if context_management is None:
        return None
    if not isinstance(context_management, list):
        raise RequestError("context_management is a list.", param="context_management")
    found: list[int] = []
    for index, entry in enumerate(context_management):
        place = f"context_management[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise RequestError("An entry is an object with a type.", param=place)
        if entry["type"] != "compaction":
            raise RequestError("The only type of context management is compaction.", param=f"{place}.type")
        threshold = entry.get("compact_threshold")
        threshold = DEFAULT_THRESHOLD_TOKENS if threshold is None else threshold
        if type(threshold) is not int or threshold < MIN_THRESHOLD_TOKENS:
            sentence = f"compact_threshold is a number of tokens, at least {MIN_THRESHOLD_TOKENS}."
            raise RequestError(sentence, param=f"{place}.compact_threshold")
        found.append(threshold)
    return min(found, default=None)


def plan(items: Sequence[Item]) -> Plan | None:
    """Divide a history; None while a call in it has no output."""
    if open_calls(items):
        return None
    end = len(items)
    while end > 0 and is_kept(items[end - 1]):
        end -= 1
    before: list[Item] = []
    summarised: list[Item] = []
    for item in items[:end]:
        (before if is_kept(item) else summarised).append(item)
    return Plan(before, summarised, list(items[end:]))


def is_worth_it(planned: Plan, threshold: int) -> bool:
    """Whether a summary frees enough to be paid for: what users said would be compacted for ever."""
    return planned.size_tokens > threshold // 10


def is_kept(item: Item) -> bool:
    """Whether a compaction leaves an item as it is. Kinds nobody knows stay: they cannot be judged."""
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") in _KEPT_ROLES and not is_summary(item)
    return kind not in _SUMMARISED_TYPES


def is_own_compaction(item: Item) -> bool:
    """Whether an item holds a compacted history that this server (or one with its key) sealed."""
    content = item.get("encrypted_content")
    return item.get("type") == "compaction" and isinstance(content, str) and content.startswith(SEAL_PREFIX)


def last_compaction(items: Sequence[Item]) -> int | None:
    """Index of the newest compacted history of ours, which holds those before it."""
    return next((i for i in range(len(items) - 1, -1, -1) if is_own_compaction(items[i])), None)


def open_calls(items: Iterable[Item]) -> set[str]:
    """Ids of calls and approval requests without an answer."""
    asked: set[str] = set()
    answered: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind in CALL_TYPES and isinstance(item.get("call_id"), str):
            asked.add(item["call_id"])
        elif kind == "mcp_approval_request" and isinstance(item.get("id"), str):
            asked.add(item["id"])
        elif kind == "mcp_approval_response":
            answered.add(str(item.get("approval_request_id")))
        elif (call_id := answered_call_id(item)) is not None:
            answered.add(call_id)
    return asked - answered


def summary_item(text: str) -> Item:
    """A summary as the model reads it."""
    part = {"type": "input_text", "text": SUMMARY_HEAD + text}
    return {"type": "message", "role": "user", "content": [part]}


def is_summary(item: Item) -> bool:
    """Whether an item is a summary of ours, which the next compaction takes up in its own."""
    content = item.get("content")
    part = content[0] if isinstance(content, list) and len(content) == 1 else None
    text = part.get("text") if isinstance(part, dict) else content
    return item.get("role") == "user" and isinstance(text, str) and text.startswith(SUMMARY_HEAD)


def expand(items: Sequence[Item], index: int, compacted: Sequence[Item]) -> list[Item]:
    """Put a compacted history in the place of the item at `index` that holds it, and of what it covers.

    Items before it that were summarised, or stand in it word for word, go; calls answered only later stay whole.
    """
    later = {call_id for item in items[index + 1 :] if (call_id := answered_call_id(item)) is not None}
    inside = {_identity(item) for item in compacted}
    before: list[Item] = []
    for place, item in enumerate(items[:index]):
        if is_kept(item):
            stays = not is_own_compaction(item) and _identity(item) not in inside
        elif item.get("type") == "reasoning":
            stays = _leads_to(items[place + 1 : index], later)
        else:
            stays = not later.isdisjoint((item.get("call_id"), item.get("id")))
        if stays:
            before.append(item)
    return [*before, *compacted, *items[index + 1 :]]


def _leads_to(following: Sequence[Item], calls: set[str]) -> bool:
    """Whether the next items that are not reasoning include, first of all, one of these calls."""
    follower = next((item for item in following if item.get("type") != "reasoning"), None)
    return follower is not None and follower.get("call_id") in calls


def _identity(item: Item) -> bytes:
    """Equal for items that say the same, whatever form and id a client gave them."""
    if item.get("type", "message") != "message":
        said: Any = {key: value for key, value in item.items() if key not in ("id", "status")}
    else:
        content = item.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        said = [item.get("role"), parts]
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)


def estimate_tokens(value: Any) -> int:
    """About how many tokens a model reads in a JSON value: four bytes each, media a fixed number."""
    media_bytes = media = 0
    left: list[Any] = [value]
    while left:
        node = left.pop()
        if isinstance(node, Mapping):
            for key, inner in node.items():
                if isinstance(inner, str) and (key in _MEDIA_FIELDS or inner.startswith("data:")):
                    media, media_bytes = media + 1, media_bytes + len(inner)
                elif not isinstance(inner, str):
                    left.append(inner)
        elif isinstance(node, list):
            left.extend(inner for inner in node if not isinstance(inner, str))
    small = min(media * MEDIA_TOKENS, media_bytes // BYTES_PER_TOKEN)
    return max(0, len(orjson.dumps(value)) - media_bytes) // BYTES_PER_TOKEN + small
