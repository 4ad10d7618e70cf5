"""Whether a conversation goes round in a loop: arithmetic over what the model said and called in its last turns.

A turn is one call of the model. Of each turn the text and every (tool, arguments) pair leave a signature; a turn
repeats as often as its most frequent signature stands in the turns of the window. What was seen is an immutable
value that follows the chain of responses, so two branches of a conversation do not count each other's turns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES
from antiphon.core.history import Turn

Action = Literal["warn", "force", "halt"]
Kind = Literal["text", "call"]

Recent = tuple[frozenset[str], ...]
"""The signatures of the last turns, oldest first; an empty set at the end is a last turn that was ignored."""

_REBUILT_BYTES = 256 * 1024
"""Encoded output that is read at most to find the last turns of a conversation again."""

WARNING = (
    "You have given the same output several times in this conversation and it has led nowhere. "
    "Do not repeat it: try something else, or say what keeps you from going on."
)
"""What the model reads once after a warning."""

OTHER_WAY = (
    "Your last outputs were all the same. Do not give that output again. Take a different approach, "
    "or tell the user plainly what is missing and stop."
)
"""Instruction that stands behind all others while an alternative is forced."""


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """When a conversation counts as a loop.

    window_turns: how many turns are looked at, with the newest. signature_chars: what is compared of an output.
    min_bytes: outputs that are shorter in UTF-8 are ignored. warn_at, force_at, halt_at: identical turns.
    """

    window_turns: int = 10
    signature_chars: int = 500
    min_bytes: int = 20
    warn_at: int = 4
    force_at: int = 5
    halt_at: int = 7


@dataclass(frozen=True, slots=True)
class Repeat:
    """The newest turn is one too many. repeats: identical turns in the window. kind: what repeats itself."""

    repeats: int
    action: Action
    kind: Kind


def signature(kind: Kind, output: str, limits: LoopLimits) -> str | None:
    """What is compared of an output; None for one that is too short to say anything."""
    if len(output) < limits.min_bytes and len(output.encode("utf-8", "surrogatepass")) < limits.min_bytes:
        return None
    said = "".join(output[: limits.signature_chars].split()).lower()
    digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{kind}:{digest}"


def signatures(items: Iterable[Mapping[str, Any]], limits: LoopLimits) -> frozenset[str]:
    """The signatures of one turn. items: what the model made in it, as the model reads it later."""
    texts: list[str] = []
    found: set[str | None] = set()
    for item in items:
        if item.get("type") in CALL_TYPES:
            found.add(signature("call", _called(item), limits))
        elif item.get("type") == "message":
            texts += _texts(item.get("content"))
    found.add(signature("text", "".join(texts), limits))
    return frozenset(one for one in found if one is not None)


def observe(recent: Recent, turn: frozenset[str], limits: LoopLimits) -> Recent:
    """What is known after one more turn. A turn of nothing but ignored outputs takes no place in the window."""
    counted = recent if not recent or recent[-1] else recent[:-1]
    return (*counted, turn)[-limits.window_turns :] if turn else (*counted, turn)


def verdict(recent: Recent, limits: LoopLimits) -> Repeat | None:
    """What the newest turn asks for, before the next call of the model; None while all is well."""
    newest = recent[-1] if recent else frozenset()
    counts = {one: sum(one in turn for turn in recent) for one in sorted(newest)}
    most = max(counts, key=lambda one: counts[one], default=None)
    if most is None or counts[most] < limits.warn_at:
        return None
    kind: Kind = "call" if most.startswith("call:") else "text"
    return Repeat(counts[most], _action(counts[most], limits), kind)


def rebuilt(parent: Turn | None, limits: LoopLimits) -> Recent:
    """What was seen along the chain that ends in `parent`: as its turns remember it, else read from their outputs.

    A long history is not read whole: turns further back than 256 KiB of output count as not seen.
    """
    recent: Recent = ()
    later: list[frozenset[str]] = []
    left = _REBUILT_BYTES
    for turn in parent.read_by_model() if parent is not None else ():
        if turn.recent is not None:
            recent = turn.recent
            break
        left -= len(turn.output)
        if left < 0 or len(later) >= limits.window_turns:
            break
        later += reversed(_turns_in(orjson.loads(b"[%b]" % turn.output), limits))
    for seen in reversed(later):
        recent = observe(recent, seen, limits)
    return recent


def _action(repeats: int, limits: LoopLimits) -> Action:
    if repeats >= limits.halt_at:
        return "halt"
    return "force" if repeats >= limits.force_at else "warn"


def _turns_in(items: list[dict[str, Any]], limits: LoopLimits) -> list[frozenset[str]]:
    """The turns of a response's output: between two of them stand outputs of calls, or what somebody else said."""
    turns: list[list[dict[str, Any]]] = [[]]
    for item in items:
        if item.get("type") in OUTPUT_TYPES or item.get("role", "assistant") != "assistant":
            turns.append([])
        else:
            turns[-1].append(item)
    return [signatures(turn, limits) for turn in turns if turn]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    said = (part.get("text", part.get("refusal")) for part in parts)
    return [text for text in said if isinstance(text, str)]


def _called(item: Mapping[str, Any]) -> str:
    """A call as (tool, arguments) in one text."""
    arguments = next((item[key] for key in ("arguments", "input", "action", "operation") if key in item), "")
    if not isinstance(arguments, str):
        arguments = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()
    return f"{item.get('name') or item.get('type')} {arguments}"
