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
    declared = _declared(items)
    answered, mapped, opaque = _match(items, open_calls)
    unknown = [call_id for call_id in answered if call_id not in open_calls and call_id not in declared]
    if unknown and not opaque:
        _refuse_unknown(parent, unknown)
    missing = [call_id for call_id in {**open_calls, **declared} if call_id not in answered]
    if missing:
        raise RequestError(
            f"No output for the open call(s) {_names(missing)}; answer each in this input.",
            code="tool_output_missing",
            param="input",
        )
    return mapped


def _match(
    items: list[dict[str, Any]], open_calls: dict[str, OpenCall]
) -> tuple[dict[str, None], list[dict[str, Any]], bool]:
    answered: dict[str, None] = {}
    mapped: list[dict[str, Any]] = []
    places: dict[str, list[int]] = {}
    opaque = False
    for item in items:
        opaque = opaque or item.get("type") in _OPAQUE_TYPES
        call_id = answered_call_id(item)
        if call_id is None:
            mapped.append(item)
            continue
        if call_id in answered:
            raise RequestError(
                f"Call {_names([call_id])} is answered twice.", code="tool_output_duplicate", param="input"
            )
        answered[call_id] = None
        call = open_calls.get(call_id)
        if call is not None and item["type"] != f"{call.type}_output":
            raise RequestError(
                f"Call {_names([call_id])} is a {call.type}; answer it with a {call.type}_output.", param="input"
            )
        theirs = call.upstream_call_id if call else None
        if theirs is None:
            mapped.append(item)
            continue
        places.setdefault(theirs, []).append(len(mapped))
        mapped.append({**item, ("call_id" if item.get("call_id") else "id"): theirs})
    return answered, _in_order_of_calls(mapped, places, items, open_calls), opaque


def _in_order_of_calls(
    mapped: list[dict[str, Any]],
    places: dict[str, list[int]],
    items: list[dict[str, Any]],
    open_calls: dict[str, OpenCall],
) -> list[dict[str, Any]]:
    """Outputs of calls that share one id at the upstream can only be told apart by their order."""
    rank = {call_id: number for number, call_id in enumerate(open_calls)}
    for shared in places.values():
        if len(shared) > 1:
            ordered = sorted(shared, key=lambda place: rank[answered_call_id(items[place]) or ""])
            for place, output in zip(shared, [mapped[place] for place in ordered], strict=True):
                mapped[place] = output
    return mapped


def _declared(items: list[dict[str, Any]]) -> dict[str, None]:
    """Calls that the input itself brings (clients that send the whole history)."""
    return {
        item["call_id"]: None
        for item in items
        if item.get("type") in CALL_TYPES and isinstance(item.get("call_id"), str)
    }


def _refuse_unknown(parent: Turn | None, unknown: list[str]) -> None:
    known_before = {call.call_id for turn in (parent.chain() if parent else ()) for call in turn.open_calls}
    never = [call_id for call_id in unknown if call_id not in known_before]
    if not never:
        raise RequestError(
            f"Call(s) {_names(unknown)} were answered before.", code="tool_output_duplicate", param="input"
        )
    raise RequestError(
        f"No open call here has the id(s) {_names(never)}.", code="tool_output_unknown", param="input"
    )


def _names(call_ids: list[str]) -> str:
    """The first of them, shortened: a client chose some."""
    more = f" and {len(call_ids) - 20} more" if len(call_ids) > 20 else ""
    return ", ".join(call_id[:80] for call_id in call_ids[:20]) + more


def finished_output(items: list[OpenItem], outcome: Outcome) -> tuple[bytes, tuple[OpenCall, ...]]:
    """What a response added to its chain: the output in the upstream's ids, and the calls left open.

    Finished items and partial text stay. A half call is dropped, and of a cancelled response every call that has
    no answer: nobody will give one.
    """
    given = {i.call_id for i in items if i.type in OUTPUT_TYPES and i.call_id is not None}
    dropped = {
        i.call_id
        for i in items
        if i.type in CALL_TYPES and i.call_id not in given and (_is_half(i) or outcome.status == "cancelled")
    }
    kept = [i for i in items if i.call_id is None or i.call_id not in dropped]
    encoded = [orjson.dumps(i.as_upstream(i.status or "incomplete")) for i in kept]
    calls = tuple(
        OpenCall(i.call_id, _text(i.upstream.get("call_id")), str(i.upstream.get("name", i.type)), i.type)
        for i in kept
        if i.call_id is not None and i.call_id not in given
    )
    return b",".join(encoded), calls


def _is_half(item: OpenItem) -> bool:
    return item.done is None or item.status != "completed"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
