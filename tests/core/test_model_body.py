"""The body of a model call: what the client asked, the whole history, and nothing that is only ours."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.model_body import bare_url, holds_credentials, model_body, visible_tools, without_credentials


def body(**raw: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(model_body({"model": "asked", **raw}, "theirs", [b'{"a":1}']))
    return found


def test_the_upstreams_model_name_and_the_whole_history_are_sent() -> None:
    assert body(input="ignored") == {"model": "theirs", "input": [{"a": 1}], "stream": True, "store": False}


def test_nothing_of_ours_is_forwarded() -> None:
    ours = {
        "type": "response.create",
        "stream_id": "SECRET",
        "antiphon": {"upstream_authorization": "SECRET"},
        "idempotency_key": "SECRET",
        "previous_response_id": "SECRET",
        "conversation": "SECRET",
        "generate": True,
        "background": True,
        "stream_options": {"include_obfuscation": True},
        "multi_agent": {"enabled": False},
        "SECRET": 1,
    }
    assert body(**ours) == body()


def test_the_upstream_never_stores_and_always_streams_whatever_was_asked() -> None:
    assert body(store=True, stream=False) == body()


def test_context_management_is_left_only_to_upstreams_that_have_it() -> None:
    raw = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
    assert "context_management" not in body(**raw)
    assert (
        orjson.loads(model_body(raw, "theirs", [], native_compaction=True))["context_management"]
        == (raw["context_management"])
    )


def test_settings_are_forwarded_as_the_client_sent_them() -> None:
    asked = {
        "instructions": "Be brief.",
        "temperature": 0,
        "top_p": 0.0,
        "parallel_tool_calls": False,
        "tools": [{"type": "function", "name": "f"}],
        "metadata": {},
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 1,
    }
    sent = body(**asked)
    assert {key: sent[key] for key in asked} == asked


def test_settings_that_are_null_are_left_out() -> None:
    assert body(temperature=None, tools=None) == body()


def test_the_upstream_gets_the_credentials_of_an_mcp_server() -> None:
    tool = {"type": "mcp", "server_label": "s", "authorization": "token", "headers": {"a": "b"}}
    assert body(tools=[tool])["tools"] == [tool]


def test_nobody_else_sees_the_credentials_of_an_mcp_server() -> None:
    tool = {"type": "mcp", "server_label": "s", "authorization": "token", "headers": {"a": "b"}}
    assert visible_tools([tool]) == [{"type": "mcp", "server_label": "s"}]
    assert tool["authorization"] == "token", "what the upstream gets must not change"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://mcp.test/mcp?api_key=SECRET", "https://mcp.test/mcp"),
        ("https://mcp.test?SECRET", "https://mcp.test"),
        ("https://mcp.test/a#SECRET", "https://mcp.test/a"),
        ("https://ann:SECRET@mcp.test:8443/a?b=SECRET#SECRET", "https://mcp.test:8443/a"),
        ("https://mcp.test/@SECRET-LOOKING/path", "https://mcp.test/@SECRET-LOOKING/path"),
    ],
)
def test_what_may_be_a_credential_in_an_address_is_neither_shown_nor_written_down(url: str, shown: str) -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": url}
    assert visible_tools([tool]) == [{**tool, "server_url": shown}]
    assert without_credentials({"tools": [tool]}) == {"tools": [{**tool, "server_url": shown}]}
    assert holds_credentials({"tools": [tool]}) is (url != shown)
    assert body(tools=[tool])["tools"] == [tool], "the upstream that executes it needs the whole"
    assert bare_url(shown) == shown


def test_a_tool_of_another_kind_is_shown_as_it_is() -> None:
    tool = {"type": "web_search", "search_context_size": "low"}
    assert visible_tools([tool]) == [tool]


@given(
    st.none()
    | st.integers()
    | st.text()
    | st.dictionaries(st.text(), st.none())
    | st.lists(st.none() | st.text() | st.lists(st.none()), max_size=3)
)
def test_tools_of_any_shape_are_no_crash(tools: Any) -> None:
    assert isinstance(visible_tools(tools), list)
