"""From what a client sent to what the model reads: references, echoes of our items, all else untouched."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from antiphon.clock import RandomIds
from antiphon.core.context import (
    MAX_REFERENCES,
    Known,
    Owned,
    echoed_ids,
    for_upstream,
    given_ids,
    is_own_id,
    references,
    resolve,
    response_of_derived,
)
from antiphon.core.history import encode_items, resolve_outputs
from antiphon.core.input_items import find_items, list_items
from antiphon.errors import RequestError

Item = dict[str, Any]

HEX = "019d00000000" + "7abc" + "9abc" + "000000000001"
USER = {"role": "user", "content": "hello"}


def turned(*items: Item, known: dict[str, Known] | None = None, **owned: Any) -> list[Item]:
    return for_upstream(list(items), known or {}, Owned(**owned))


def reference(item_id: str) -> Item:
    return {"type": "item_reference", "id": item_id}


# Ids


def test_ids_we_mint_are_known_and_ids_of_others_are_not() -> None:
    ids = RandomIds()
    assert all(is_own_id(ids.mint(prefix)) for prefix in ("msg", "rs", "fc", "cmp", "call"))
    for foreign in ("msg_1", "rs_" + "0a" * 25, "msg_67c9-4d", "rs_" + "f" * 32, "at_" + HEX[:-1], None, 7):
        assert not is_own_id(foreign)


def test_an_id_derived_by_input_items_leads_to_its_response() -> None:
    derived = list_items(f"resp_{HEX}", encode_items([USER, USER]))[1]["id"]
    assert is_own_id(derived)
    assert response_of_derived(derived) == f"resp_{HEX}"
    assert response_of_derived(f"msg_{HEX}") is None
    assert response_of_derived("msg_1") is None


def test_only_ids_a_client_made_up_are_kept_for_later_references() -> None:
    items = [USER, {**USER, "id": "msg_mine"}, {**USER, "id": f"msg_{HEX}"}, reference("msg_mine")]
    assert given_ids(items) == ["msg_mine"]


def test_an_input_item_is_found_as_it_was_sent_by_its_own_and_by_its_derived_id() -> None:
    sent = [USER, {**USER, "id": "msg_mine"}]
    encoded = encode_items(sent)
    wanted = [f"msg_{HEX}0000", "msg_mine", f"msg_{HEX}0002"]
    assert find_items(f"resp_{HEX}", encoded, wanted) == {wanted[0]: USER, wanted[1]: sent[1]}


# References


def test_a_reference_becomes_the_item_it_names() -> None:
    items = [USER, reference("fc_1")]
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    assert references(items) == {"fc_1"}
    assert resolve(items, {"fc_1": Known("resp_1", None, call)}) == [USER, call]


def test_an_unknown_reference_is_refused_with_its_place() -> None:
    for known in ({}, {"fc_1": Known("resp_1")}):
        with pytest.raises(RequestError) as refused:
            resolve([USER, reference("fc_1")], known)
        assert (refused.value.code, refused.value.status) == ("item_not_found", 404)
        assert refused.value.param == "input[1]"


@pytest.mark.parametrize("item_id", [None, "", 1])
def test_a_reference_without_an_id_is_refused(item_id: Any) -> None:
    with pytest.raises(RequestError) as refused:
        references([{"type": "item_reference", "id": item_id}])
    assert refused.value.param == "input[0].id"


def test_what_the_chain_holds_already_is_not_said_twice() -> None:
    items = [reference("msg_1"), USER]
    assert resolve(items, {"msg_1": Known("resp_1", None, USER)}, {"resp_1"}) == [USER]


# Echoes


def test_an_echoed_item_gets_the_upstreams_id_where_it_is_known_and_none_where_it_is_not() -> None:
    reasoning = {"type": "reasoning", "id": f"rs_{HEX}", "summary": [], "encrypted_content": "blob"}
    assert echoed_ids([reasoning, USER]) == {f"rs_{HEX}"}
    (known,) = turned(reasoning, known={f"rs_{HEX}": Known("resp_1", "rs_theirs")})
    assert known == {**reasoning, "id": "rs_theirs"}
    (known,) = turned({**reasoning, "status": "completed"}, known={f"rs_{HEX}": Known("resp_1", "rs_theirs")})
    assert "status" not in known, "the upstream never gave one"
    (unknown,) = turned(reasoning, known={f"rs_{HEX}": Known("resp_1")})
    assert unknown == {"type": "reasoning", "summary": [], "encrypted_content": "blob"}


def test_ids_of_others_and_ids_that_name_something_else_stay() -> None:
    items = [
        {"type": "reasoning", "id": "rs_theirs", "summary": [], "encrypted_content": "blob"},
        {"type": "local_shell_call_output", "id": f"call_{HEX}", "output": "ok"},
        {"type": "mcp_approval_request", "id": f"mcpr_{HEX}", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{HEX}", "approve": True},
    ]
    assert all(a is b for a, b in zip(turned(*items), items, strict=True))


def test_a_call_of_ours_becomes_a_call_with_its_output() -> None:
    call = {
        "type": "mcp_call",
        "id": f"mcp_{HEX}",
        "server_label": "docs",
        "name": "find",
        "arguments": '{"n": 1.0}',
    }
    pair = turned({**call, "output": "found", "error": None}, called_as=lambda label, name: f"{label}__{name}")
    assert pair == [
        {"type": "function_call", "call_id": f"call_{HEX}", "name": "docs__find", "arguments": '{"n": 1.0}'},
        {"type": "function_call_output", "call_id": f"call_{HEX}", "output": "found"},
    ]
    resolve_outputs(None, pair)
    assert turned({**call, "output": None, "error": "no such page"})[1]["output"] == "error: no such page"
    assert turned({**call, "output": None, "error": {"code": 1}})[1]["output"] == 'error: {"code":1}'
    assert turned(call)[1]["output"] == "error: the call did not finish"


def test_calls_of_the_upstream_stay_calls_of_the_upstream() -> None:
    calls = [
        {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "find", "arguments": "{}"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q"},
        },
    ]
    assert turned(*calls, mcp=False) == calls


def test_a_search_of_ours_becomes_a_call_whose_output_names_its_sources() -> None:
    action = {"type": "search", "query": "bees", "sources": [{"type": "url", "url": "https://example.com/bees"}]}
    search = {"type": "web_search_call", "id": f"ws_{HEX}", "status": "completed", "action": action}
    call, output = turned(search, web_search=True)
    assert (call["name"], orjson.loads(call["arguments"])) == ("web_search", {"query": "bees"})
    assert "https://example.com/bees" in output["output"]
    failed = {**search, "status": "failed"}
    assert turned(failed, web_search=True)[1]["output"].startswith("error:")
    for odd in (None, [], {"sources": 1}, {"sources": [1, {"url": 2}], "query": {}}):
        assert len(turned({**search, "action": odd}, web_search=True)) == 2


def test_lists_of_tools_and_approvals_of_calls_that_were_made_are_left_out() -> None:
    call = {"type": "mcp_call", "id": f"mcp_{HEX}", "server_label": "s", "name": "f", "arguments": "{}"}
    items = [
        {"type": "mcp_list_tools", "id": f"mcpl_{HEX}", "server_label": "s", "tools": []},
        {"type": "mcp_approval_request", "id": f"mcpr_{HEX}", "server_label": "s", "name": "f", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{HEX}", "approve": True},
        {**call, "approval_request_id": f"mcpr_{HEX}", "output": "done"},
    ]
    assert [item["type"] for item in turned(*items)] == ["function_call", "function_call_output"]


STRUCTURED = [
    {
        "role": "user",
        "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}],
    },
    {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "data:;base64,AA=="}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="},
    {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "namespace", "name": "functions", "tools": []}],
    },
    {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "print(1)"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA-of-somebody-else"},
    {"type": "from_the_future", "deep": [[[{"n": 2**64 - 1, "x": 1.0, "m": -(2**63)}]]]},
]


@pytest.mark.parametrize("item", STRUCTURED, ids=lambda item: str(item.get("type", "message")))
def test_what_is_not_ours_stays_the_very_same_object(item: Item) -> None:
    assert turned(item)[0] is item


# Order


def test_an_output_before_its_call_is_refused() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    assert resolve_outputs(None, [call, output]) == [call, output]
    with pytest.raises(RequestError) as refused:
        resolve_outputs(None, [output, call])
    assert refused.value.code == "tool_output_unknown"


def test_an_input_refers_to_a_bounded_number_of_items() -> None:
    many = [{"type": "item_reference", "id": f"msg_{n}"} for n in range(MAX_REFERENCES + 1)]
    assert len(references(many[:-1])) == MAX_REFERENCES
    with pytest.raises(RequestError) as refused:
        references(many)
    assert refused.value.param == "input"


def test_an_item_that_is_referred_to_twice_is_said_once() -> None:
    known = {"msg_1": Known("resp_1", None, USER)}
    assert resolve([{"type": "item_reference", "id": "msg_1"}] * 3, known) == [USER]
