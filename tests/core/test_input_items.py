"""A response's own input as GET lists it, page by page."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.history import encode_items
from antiphon.core.input_items import list_items, page
from antiphon.errors import RequestError
from antiphon_protocol.bodies import InputItemList

Item = dict[str, Any]


def listed(*items: Item) -> list[Item]:
    return list_items("resp_019d", encode_items(items))


def test_an_item_without_type_is_a_message_with_parts() -> None:
    (item,) = listed({"role": "user", "content": "hello"})
    assert item == {
        "id": "msg_019d0000",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
        "status": "completed",
    }


def test_words_of_the_assistant_are_output_text() -> None:
    (item,) = listed({"role": "assistant", "content": "hello"})
    assert item["content"] == [{"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}]


def test_ids_that_a_client_gave_are_kept_and_others_derived() -> None:
    ids = [
        item["id"]
        for item in listed({"id": "mine", "role": "user", "content": "a"}, {"role": "user", "content": "b"})
    ]
    assert ids == ["mine", "msg_019d0001"]


def test_derived_ids_are_the_same_each_time() -> None:
    items = [{"role": "user", "content": "a"}, {"type": "function_call_output", "call_id": "c", "output": "x"}]
    assert listed(*items) == listed(*items)


@pytest.mark.parametrize("bad", [None, "", 5, "same"])
def test_every_item_has_an_id_of_its_own_whatever_the_client_gave(bad: Any) -> None:
    items = listed(*({"id": bad, "role": "user", "content": "a"} for _ in range(3)))
    assert len({item["id"] for item in items}) == 3
    assert all(isinstance(item["id"], str) and item["id"] for item in items)


def test_items_of_unknown_kinds_are_listed_as_they_came() -> None:
    (item,) = listed({"type": "hologram", "beam": {"width": 2}})
    assert item == {"id": "item_019d0000", "type": "hologram", "beam": {"width": 2}}


def test_no_input_is_an_empty_list() -> None:
    assert page(list_items("resp_1", b""), limit=20, order="asc", after=None) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


KINDS: list[Item] = [
    {"role": "user", "content": "hello"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    {"type": "reasoning", "summary": []},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "hologram"},
]


@given(st.lists(st.sampled_from(KINDS), max_size=30), st.integers(1, 7), st.sampled_from(["asc", "desc"]))
def test_the_pages_together_are_the_list_each_item_once(items: list[Item], limit: int, order: str) -> None:
    whole = listed(*items)
    found: list[Item] = []
    after: str | None = None
    while True:
        body = page(whole, limit=limit, order=order, after=after)
        InputItemList.model_validate(orjson.loads(orjson.dumps(body)))
        found += body["data"]
        assert len(body["data"]) <= limit
        assert len(found) <= len(items)
        if not body["has_more"]:
            break
        after = body["last_id"]
    assert found == (whole if order == "asc" else whole[::-1])


def test_an_item_that_is_not_in_the_list_is_refused() -> None:
    with pytest.raises(RequestError) as refused:
        page(listed({"role": "user", "content": "a"}), limit=20, order="asc", after="x" * 10_000)
    assert (refused.value.param, refused.value.status) == ("after", 400)
    assert len(refused.value.message) < 200
