"""What a response continues from: a chain of turns, each holding only what it added.

The chain is shared, never copied: the cost of a turn grows with its own input, and only writing the request for
the upstream walks the whole chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES, OpenItem
from antiphon.core.assembly.outcome import Outcome
from antiphon.errors import RequestError

_OPAQUE_TYPES = frozenset({"compaction", "item_reference"})
"""Items that may stand for calls we cannot see."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that waits for its output. upstream_call_id: what the upstream calls it, None if it named none."""

    call_id: str
    upstream_call_id: str | None
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished response as something to continue from.

    input, output: what this turn added, as encoded items joined by commas, in the upstream's ids.
    """

    response_id: str
    tenant: str
    creator: str
    visibility: str
    conversation_id: str
    stored: bool
    status: str
    parent: Turn | None
    input: bytes
    output: bytes
    open_calls: tuple[OpenCall, ...] = ()

    def chain(self) -> Iterator[Turn]:
        """This turn and its ancestors, newest first."""
        turn: Turn | None = self
        while turn is not None:
            yield turn
            turn = turn.parent


def encode_history(parent: Turn | None, new_input: bytes) -> bytes:
    """The whole input of a model call as one encoded list."""
    parts = [new_input] if new_input else []
    for turn in parent.chain() if parent else ():
        parts.extend(part for part in (turn.output, turn.input) if part)
    parts.reverse()
    return b"[" + b",".join(parts) + b"]"


def encode_items(items: Iterable[dict[str, Any]]) -> bytes:
    """Items joined by commas. Raises RequestError for what JSON cannot hold."""
    try:
        return b",".join([orjson.dumps(item) for item in items])
    except TypeError as error:
        raise RequestError(f"The input cannot be kept: {error}.", code="invalid_json") from error


def check_continuable(parent: Turn) -> None:
    """Whether a response may be continued at all. Raises RequestError."""
    if parent.status == "failed":
        raise RequestError(
            f"Response {parent.response_id} failed; continue from the response before it.",
            code="response_not_continuable",
            param="previous_response_id",
        )
    if parent.status in ("in_progress", "queued"):
        raise RequestError(
            f"Response {parent.response_id} has not ended yet.",
            code="response_in_progress",
            param="previous_response_id",
        )


def answered_call_id(item: dict[str, Any]) -> str | None:
    """The call an input item answers, None if it is no output. (Local shell outputs name it in `id`.)"""
    kind = item.get("type")
    if kind not in OUTPUT_TYPES:
        return None
    call_id = item.get("call_id") or (item.get("id") if kind == "local_shell_call_output" else None)
    return call_id if isinstance(call_id, str) else None


def resolve_outputs(parent: Turn | None, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Match outputs against open calls and write the upstream's call ids into them.

    Every call is answered exactly once: by this input, before anything else is said. Raises RequestError
    `tool_output_unknown`, `tool_output_duplicate` or `tool_output_missing`, naming the call ids.
    """
    open_calls = {call.call_id: call for call in parent.open_calls} if parent else {}
    answered, mapped, opaque = _match(items, open_calls)
    unknown = [call_id for call_id in answered if call_id not in open_calls and call_id not in _declared(items)]
    if unknown and not opaque:
        _refuse_unknown(parent, unknown)
    missing = [call_id for call_id in (*open_calls, *_declared(items)) if call_id not in answered]
    if missing:
        raise RequestError(
            f"No output for the open call(s) {', '.join(missing)}; answer each in this input.",
            code="tool_output_missing",
            param="input",
        )
    return mapped


def _match(
    items: list[dict[str, Any]], open_calls: dict[str, OpenCall]
) -> tuple[dict[str, None], list[dict[str, Any]], bool]:
    answered: dict[str, None] = {}
    mapped: list[dict[str, Any]] = []
    opaque = False
    for item in items:
        opaque = opaque or item.get("type") in _OPAQUE_TYPES
        call_id = answered_call_id(item)
        if call_id is None:
            mapped.append(item)
            continue
        if call_id in answered:
            raise RequestError(f"Call {call_id} is answered twice.", code="tool_output_duplicate", param="input")
        answered[call_id] = None
        call = open_calls.get(call_id)
        theirs = call.upstream_call_id if call else None
        mapped.append({**item, "call_id": theirs} if theirs is not None and "call_id" in item else item)
    return answered, mapped, opaque


def _declared(items: list[dict[str, Any]]) -> dict[str, None]:
    """Calls that the input itself brings (clients that send the whole history)."""
    return {
        item["call_id"]: None
        for item in items
        if item.get("type") in CALL_TYPES and isinstance(item.get("call_id"), str)
    }


def _refuse_unknown(parent: Turn | None, unknown: list[str]) -> None:
    known_before = {call.call_id for turn in (parent.chain() if parent else ()) for call in turn.open_calls}
    names = ", ".join(name[:80] for name in unknown)
    if known_before.issuperset(unknown):
        raise RequestError(f"Call(s) {names} were answered before.", code="tool_output_duplicate", param="input")
    raise RequestError(f"No open call here has the id(s) {names}.", code="tool_output_unknown", param="input")


def finished_output(items: list[OpenItem], outcome: Outcome) -> tuple[bytes, tuple[OpenCall, ...]]:
    """What a response added to its chain: the output in the upstream's ids, and the calls left open.

    A cancelled response keeps what it said but none of its calls: nobody will answer them.
    """
    kept = [i for i in items if not (outcome.status == "cancelled" and i.type in CALL_TYPES)]
    whole = [i for i in kept if i.done is not None or i.type not in CALL_TYPES]
    status = "completed" if outcome.status == "completed" else "incomplete"
    answered = {i.call_id for i in whole if i.type in OUTPUT_TYPES}
    encoded = [orjson.dumps(i.as_upstream("completed" if i.done else status)) for i in whole]
    calls = tuple(
        OpenCall(i.call_id, _text(i.upstream.get("call_id")), str(i.upstream.get("name", i.type)), i.type)
        for i in whole
        if i.call_id is not None and i.call_id not in answered
    )
    return b",".join(encoded), calls


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
