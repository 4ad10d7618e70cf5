"""From the items a client sent to the items the model gets to read.

References become the items they name, and items of ours that a client sends back become what the upstream knows:
its own ids, and calls with their outputs in place of the server's own calls. Everything else passes as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.assembly.server_call import error_text
from antiphon.errors import RequestError

Item = dict[str, Any]

_OWN_ID = re.compile(r"[a-z]+_([0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15})([0-9a-f]{4,8})?")
"""Ids we mint; with digits behind them those that `input_items` derives."""

_ID_MATTERS = frozenset(
    {"item_reference", "local_shell_call_output", "mcp_approval_request", "mcp_approval_response"}
)
"""Kinds whose id names something else than the item."""

MAX_REFERENCES = 1000
"""Items one input may refer to."""

_NOT_FINISHED = "error: the call did not finish"


@dataclass(frozen=True, slots=True)
class Known:
    """A stored item. upstream_id: what the upstream called it, None if unknown. item: as clients see it.

    response_id: whose it is. item is there only if it was asked for.
    """

    response_id: str
    upstream_id: str | None = None
    item: Item | None = None


def plain_name(server_label: str, name: str) -> str:
    """The model knows the tool by its own name."""
    return name


@dataclass(frozen=True, slots=True)
class Owned:
    """Which kinds of echoed calls were executed by this server, and under what name the model knows a tool.

    called_as: from server label and name to the name of the function.
    """

    mcp: bool = True
    web_search: bool = False
    called_as: Callable[[str, str], str] = plain_name


def is_own_id(item_id: Any) -> bool:
    """Whether an id looks like one this server gave."""
    return isinstance(item_id, str) and _OWN_ID.fullmatch(item_id) is not None


def response_of_derived(item_id: str) -> str | None:
    """The response whose input lists an item under this id, None if the id does not say."""
    found = _OWN_ID.fullmatch(item_id)
    return f"resp_{found.group(1)}" if found and found.group(2) else None


def references(items: Collection[Item]) -> set[str]:
    """Ids of the items that have to be found before the input can be resolved. Raises RequestError."""
    wanted: set[str] = set()
    if sum(item.get("type") == "item_reference" for item in items) > MAX_REFERENCES:
        raise RequestError(f"An input refers to at most {MAX_REFERENCES} items.", param="input")
    for index, item in enumerate(items):
        if item.get("type") == "item_reference":
            if not isinstance(item.get("id"), str) or not item["id"]:
                raise RequestError("A reference needs the id of an item.", param=f"input[{index}].id")
            wanted.add(item["id"])
    return wanted


def echoed_ids(items: Collection[Item]) -> set[str]:
    """Ids of ours on items that a client sends back; what the upstream called them is worth knowing."""
    return {item["id"] for item in items if item.get("type") not in _ID_MATTERS and is_own_id(item.get("id"))}


def given_ids(items: Collection[Item]) -> list[str]:
    """Ids that a client made up for its items, by which it may name them later."""
    made_up = {
        item["id"]: None
        for item in items
        if item.get("type") not in _ID_MATTERS and isinstance(item.get("id"), str) and not is_own_id(item["id"])
    }
    return list(made_up)


def resolve(items: list[Item], known: Mapping[str, Known], chain: Collection[str] = ()) -> list[Item]:
    """Put the items that references name in their place. chain: ids of responses the model reads anyway.

    What the chain holds already is not said twice, nor what the input refers to twice. Raises RequestError
    `item_not_found`.
    """
    resolved: list[Item] = []
    said: set[str] = set()
    for index, item in enumerate(items):
        if item.get("type") != "item_reference":
            resolved.append(item)
            continue
        found = known.get(item["id"])
        if found is None or found.item is None:
            raise RequestError(
                f"Item with id '{item['id'][:80]}' not found.", code="item_not_found", param=f"input[{index}]"
            )
        if found.response_id not in chain and item["id"] not in said:
            resolved.append(found.item)
            said.add(item["id"])
    return resolved


def for_upstream(items: list[Item], known: Mapping[str, Known], owned: Owned) -> list[Item]:
    """Turn items of ours back into what the upstream knows. Items that need no change stay the same objects."""
    turned: list[Item] = []
    approved = {
        request_id
        for item in items
        if item.get("type") == "mcp_call" and isinstance(request_id := item.get("approval_request_id"), str)
    }
    for index, item in enumerate(items):
        kind = item.get("type")
        if owned.mcp and (kind == "mcp_list_tools" or _approval_id(item) in approved):
            continue  # a call that was made says all that its approval said
        if kind == "mcp_call" and owned.mcp:
            turned += _mcp_pair(item, index, owned)
        elif kind == "web_search_call" and owned.web_search:
            turned += _search_pair(item, index, owned)
        else:
            turned.append(_with_upstream_id(item, known))
    return turned


def _with_upstream_id(item: Item, known: Mapping[str, Known]) -> Item:
    """An upstream refuses ids that are not its own, above all on encrypted reasoning; it does without.

    It also refuses the status that reasoning has only here.
    """
    if item.get("type") in _ID_MATTERS or not is_own_id(item.get("id")):
        return item
    ours = ("id", "status") if item.get("type") == "reasoning" else ("id",)
    theirs = {key: value for key, value in item.items() if key not in ours}
    found = known.get(item["id"])
    return {"id": found.upstream_id, **theirs} if found is not None and found.upstream_id else theirs


def _approval_id(item: Item) -> str | None:
    """The approval that an item asks for or gives."""
    field = {"mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}.get(
        str(item.get("type"))
    )
    found = item.get(field) if field is not None else None
    return found if isinstance(found, str) else None


def _mcp_pair(item: Item, index: int, owned: Owned) -> list[Item]:
    label, name, arguments = (_text(item.get(key)) for key in ("server_label", "name", "arguments"))
    output, error = item.get("output"), item.get("error")
    if output is None:
        output = _NOT_FINISHED if error is None else f"error: {error_text(error)}"
    return _pair(item, index, owned.called_as(label, name), arguments, _text(output))


def _search_pair(item: Item, index: int, owned: Owned) -> list[Item]:
    """What was found is not part of the item; its sources are."""
    action = item.get("action")
    action = action if isinstance(action, dict) else {}
    query = orjson.dumps({"query": _text(action.get("query"))}).decode()
    listed = action.get("sources")
    sources = [_text(s.get("url")) for s in listed if isinstance(s, dict)] if isinstance(listed, list) else []
    if item.get("status") == "completed":
        output = "\n".join(["The search was made earlier; its text is no longer at hand.", *sources])
    else:
        output = _NOT_FINISHED
    return _pair(item, index, owned.called_as("antiphon", "web_search"), query, output)


def _pair(item: Item, index: int, name: str, arguments: str, output: str) -> list[Item]:
    given = item.get("id")
    own = _OWN_ID.fullmatch(given) if isinstance(given, str) else None
    call_id = f"call_{own.group(1) if own else given or index}"
    return [
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()
