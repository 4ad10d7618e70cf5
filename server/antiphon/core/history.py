"""What a response continues from: a chain of turns, each holding only what it added.

The chain is shared, never copied: the cost of a turn grows with its own input, and only writing the request for
the upstream needs all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES, OpenItem
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.assembly.wire import to_keep
from antiphon.core.transcript import Transcript
from antiphon.errors import RequestError

_OPAQUE_TYPES = frozenset({"compaction", "item_reference"})
"""Items that may stand for calls we cannot see."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that waits for its output. upstream_call_id: what the upstream calls it, None if it named none.

    server_label, arguments: of a call that waits for approval; then call_id is that of the approval request.
    """

    call_id: str
    upstream_call_id: str | None
    name: str
    type: str
    server_label: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a client said about a call that needs approval."""

    call: OpenCall
    approve: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished response as something to continue from.

    input, output: what this turn added, as encoded items joined by commas, in the upstream's ids.
    compacted: the same, in place of this turn's input and everything before it; the output is then what came after
    the compaction. recent: what `core/loop_detection.py` saw up to here, None if nobody remembers.
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
    compacted: bytes | None = None
    recent: tuple[frozenset[str], ...] | None = None
    _transcript: Transcript | None = field(default=None, init=False, repr=False, compare=False)
    """What a model reads of the chain up to here, once it was needed."""

    def chain(self) -> Iterator[Turn]:
        """This turn and its ancestors, newest first."""
        turn: Turn | None = self
        while turn is not None:
            yield turn
            turn = turn.parent

    def read_by_model(self) -> Iterator[Turn]:
        """The part of the chain that still stands word for word, newest first; the last may be compacted."""
        for turn in self.chain():
            yield turn
            if turn.compacted is not None:
                return

    @property
    def transcript(self) -> Transcript:
        """What a model reads of the chain up to and with this turn."""
        known, missing = Transcript(), list[Turn]()
        for turn in self.read_by_model():
            if turn._transcript is not None:
                known = turn._transcript
                break
            missing.append(turn)
        for turn in reversed(missing):
            earlier = turn.input if turn.compacted is None else turn.compacted
            known = known.then(earlier, turn.output)
            object.__setattr__(turn, "_transcript", known)
        return known


def history_parts(parent: Turn | None, new_input: bytes) -> list[bytes]:
    """The whole input of a model call in parts, which joined by commas are its items."""
    parts = [] if parent is None else parent.transcript.parts()
    if new_input:
        parts.append(new_input)
    return parts


def encode_history(parent: Turn | None, new_input: bytes) -> bytes:
    """The whole input of a model call as one encoded list."""
    return encode_list(history_parts(parent, new_input))


def encode_list(parts: Sequence[bytes]) -> bytes:
    """Parts of a history as one encoded list."""
    return b"[%b]" % b",".join(parts)


def encoded_size(parts: Sequence[bytes]) -> int:
    """Bytes of `encode_list`."""
    return sum(map(len, parts)) + max(len(parts) - 1, 0) + 2


def encode_items(items: Iterable[dict[str, Any]]) -> bytes:
    """Items joined by commas. Raises RequestError for what JSON cannot hold."""
    try:
        return to_keep(b",".join([orjson.dumps(item) for item in items]))
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
    """The call an input item answers, None if it is no answer. (Local shell outputs name it in `id`.)"""
    kind = item.get("type")
    if kind == "mcp_approval_response":
        request_id = item.get("approval_request_id")
        return request_id if isinstance(request_id, str) else None
    if kind not in OUTPUT_TYPES:
        return None
    call_id = item.get("call_id") or (item.get("id") if kind == "local_shell_call_output" else None)
    return call_id if isinstance(call_id, str) else None


def resolve_outputs(parent: Turn | None, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Match outputs against open calls and write the upstream's call ids into them. Approvals are left out: see
    `approvals`.

    Every call is answered exactly once: by this input, before anything else is said. Raises RequestError
    `tool_output_unknown`, `tool_output_duplicate` or `tool_output_missing`, naming the call ids.
    """
    open_calls = {call.call_id: call for call in parent.open_calls} if parent else {}
    declared = _declared(items)
    answered, mapped, opaque = _match(items, open_calls)
    unknown = [call_id for call_id in answered if call_id not in open_calls and call_id not in declared]
    if unknown and not opaque:
        _refuse_unknown(parent, unknown)
    _refuse_early(items, open_calls, declared)
    missing = [call_id for call_id in {**open_calls, **declared} if call_id not in answered]
    if missing:
        raise RequestError(
            f"No output for the open call(s) {_names(missing)}; answer each in this input.",
            code="tool_output_missing",
            param="input",
        )
    return mapped


def approvals(parent: Turn | None, items: list[dict[str, Any]]) -> list[Approval]:
    """What the input says about calls of the parent that need approval, in the order of the calls."""
    said = {answered_call_id(item): item for item in items if item.get("type") == "mcp_approval_response"}
    return [
        Approval(call, item.get("approve") is True, _text(item.get("reason")))
        for call in (parent.open_calls if parent else ())
        if (item := said.get(call.call_id)) is not None
    ]


def echoed_approvals(items: list[dict[str, Any]]) -> list[str]:
    """Ids of approval requests that the input brings back from an earlier response together with their answers."""
    made = {item.get("approval_request_id") for item in items if item.get("type") == "mcp_call"}
    said = (answered_call_id(item) for item in items if item.get("type") == "mcp_approval_response")
    return [request_id for request_id in said if request_id is not None and request_id not in made]


def take_approvals(
    items: list[dict[str, Any]], asked: Mapping[str, dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Approval]]:
    """Take approvals out of a whole history: they become calls at its end, which are then made (or not).

    asked: the approval requests as they were shown, by id. Gives the input without requests and answers, the calls
    as the model made them, and what the answers say. Raises RequestError for an answer to what was never asked.
    """
    wanted = echoed_approvals(items)
    if unknown := [request_id for request_id in wanted if request_id not in asked]:
        _refuse_unknown(None, unknown)
    calls = [
        OpenCall(i, None, request["name"], request["type"], request["server_label"], request["arguments"])
        for i in wanted
        for request in (asked[i],)
    ]
    turn = Turn("", "", "", "", "", False, "completed", None, b"", b"", tuple(calls))
    said = approvals(turn, items)
    rest = [
        item
        for item in items
        if item.get("type") != "mcp_approval_response"
        and not (item.get("type") == "mcp_approval_request" and item.get("id") in asked)
    ]
    theirs = [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in calls
    ]
    return rest, theirs, said


def answer_type(call_type: str) -> str:
    """The type of the item that answers a call of this type."""
    return "mcp_approval_response" if call_type == "mcp_approval_request" else f"{call_type}_output"


def _match(
    items: list[dict[str, Any]], open_calls: dict[str, OpenCall]
) -> tuple[dict[str, None], list[dict[str, Any]], bool]:
    answered: dict[str, None] = {}
    mapped: list[dict[str, Any]] = []
    places: dict[str, list[tuple[int, str]]] = {}
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
        if call is not None and item["type"] != answer_type(call.type):
            raise RequestError(
                f"Call {_names([call_id])} is a {call.type}; answer it with a {answer_type(call.type)}.",
                param="input",
            )
        if item["type"] == "mcp_approval_response":
            continue
        theirs = call.upstream_call_id if call else None
        if theirs is None:
            mapped.append(item)
            continue
        places.setdefault(theirs, []).append((len(mapped), call_id))
        mapped.append({**item, ("call_id" if item.get("call_id") else "id"): theirs})
    return answered, _in_order_of_calls(mapped, places, open_calls), opaque


def _in_order_of_calls(
    mapped: list[dict[str, Any]], places: dict[str, list[tuple[int, str]]], open_calls: dict[str, OpenCall]
) -> list[dict[str, Any]]:
    """Outputs of calls that share one id at the upstream can only be told apart by their order."""
    rank = {call_id: number for number, call_id in enumerate(open_calls)}
    for shared in places.values():
        if len(shared) > 1:
            ordered = sorted(shared, key=lambda place: rank[place[1]])
            for (place, _), output in zip(shared, [mapped[place] for place, _ in ordered], strict=True):
                mapped[place] = output
    return mapped


def _declared(items: list[dict[str, Any]]) -> dict[str, None]:
    """Calls that the input itself brings (clients that send the whole history)."""
    return {
        item["call_id"]: None
        for item in items
        if item.get("type") in CALL_TYPES and isinstance(item.get("call_id"), str)
    }


def _refuse_early(items: list[dict[str, Any]], open_calls: Iterable[str], declared: dict[str, None]) -> None:
    """An output stands behind its call. Raises RequestError: no upstream takes it otherwise."""
    made = set(open_calls)
    for item in items:
        call_id = answered_call_id(item)
        if call_id is None and item.get("type") in CALL_TYPES:
            made.add(item["call_id"])
        elif call_id in declared and call_id not in made:
            raise RequestError(
                f"The output of call {_names([call_id])} stands before the call.",
                code="tool_output_unknown",
                param="input",
            )


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


def finished_output(items: Sequence[OpenItem], outcome: Outcome) -> tuple[bytes, tuple[OpenCall, ...]]:
    """What a round added to its chain: its output in the upstream's ids, and the calls left open.

    Finished items and partial text stay, and results follow behind them in the order of the calls. A half call is
    dropped, and so is one that nobody will answer: a call of the server without a result, and of a cancelled
    response every call.
    """
    answered = {i.call_id for i in items if i.call_id is not None and (i.type in OUTPUT_TYPES or i.result)}
    answered |= {i.approval_request_id for i in items if i.approval_request_id is not None and i.result}
    dropped = {
        i.call_id
        for i in items
        if i.owner != "nobody"
        and i.call_id not in answered
        and i.to_model == "whole"
        and (_is_half(i) or i.owner == "server" or outcome.status == "cancelled")
    }
    kept = [i for i in items if i.call_id is None or i.call_id not in dropped]
    encoded = [orjson.dumps(i.for_model()) for i in kept if i.to_model == "whole"]
    place = {i.call_id: i.index for i in kept if i.owner != "nobody"}
    results = sorted(
        (place.get(i.approval_request_id or i.call_id, i.index), i.index, r)
        for i in kept
        if (r := _result(i)) is not None
    )
    calls = tuple(
        _open_call(i, i.call_id)
        for i in kept
        if i.owner not in ("nobody", "server") and i.call_id is not None and i.call_id not in answered
    )
    return to_keep(b",".join([*encoded, *(result for *_, result in results)])), calls


def _result(item: OpenItem) -> bytes | None:
    """The answer to a call as the model reads it, of the items that have one beside or instead of themselves."""
    if item.result is not None:
        call_id = item.upstream.get("call_id") or item.call_id
        return orjson.dumps({"type": "function_call_output", "call_id": call_id, "output": item.result.for_model})
    if item.type in OUTPUT_TYPES and item.to_model == "result":
        return orjson.dumps(item.for_model())
    return None


def _open_call(item: OpenItem, call_id: str) -> OpenCall:
    theirs = _text(item.upstream.get("call_id"))
    if item.tool is not None:
        tool = item.tool
        return OpenCall(call_id, theirs, tool.name, "mcp_approval_request", tool.server_label, item.arguments)
    return OpenCall(call_id, theirs, str(item.upstream.get("name", item.type)), item.type)


def _is_half(item: OpenItem) -> bool:
    return item.done is None or item.status != "completed"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
