"""`web_search` as a tool of the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.ports import OpenTools, Tool
from antiphon.tools.web_search import APIS, HttpSearchProvider, WebSearch
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.tools.running import call, named, opened, toolbox

HITS = [
    {"title": "Bern", "url": "https://de.wikipedia.org/wiki/Bern", "snippet": "A city.", "content": "A city."},
    {"title": "Wetter", "url": "https://example.com/bern", "snippet": "Rain.", "content": "Rain."},
    {"title": "No address"},
    "nonsense",
]
ASKED = {"type": "web_search"}


def answering(body: Any, status: int = 200) -> Any:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.answer(status, body)

    return handler


def tool_in(tools: OpenTools) -> Tool:
    return named(tools)["web_search"]


async def test_the_provider_is_asked_as_documented_and_its_results_become_text_and_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "quite-secret")
    async with StubUpstream(answering({"results": HITS})) as stub:
        search = {"url": stub.url, "key_env": "SEARCH_KEY", "results": 3}
        async with toolbox(web_search=search) as box, opened(box, ASKED) as tools:
            assert box.owns_web_search()
            assert [(one.server_label, one.listed) for one in tools.lists] == [("antiphon", False)]
            tool = tool_in(tools)
            assert (tool.spec.item_type, tool.spec.side_effects) == ("web_search_call", False)
            result = await call(tool, {"query": "weather in Bern"})
        request = stub.requests[0]
    assert (request.method, request.body) == ("POST", {"query": "weather in Bern", "count": 3})
    assert request.authorization == "Bearer quite-secret"
    assert result.output == (
        "1. Bern\nhttps://de.wikipedia.org/wiki/Bern\nA city.\n\n2. Wetter\nhttps://example.com/bern\nRain."
    )
    assert result.action == {
        "type": "search",
        "query": "weather in Bern",
        "sources": [
            {"type": "url", "url": "https://de.wikipedia.org/wiki/Bern"},
            {"type": "url", "url": "https://example.com/bern"},
        ],
    }


async def test_a_key_that_is_not_there_is_a_failed_call_that_says_what_to_set() -> None:
    async with StubUpstream() as stub:
        async with (
            toolbox(web_search={"url": stub.url, "key_env": "NO_SUCH_KEY"}) as box,
            opened(box, ASKED) as tools,
        ):
            result = await call(tool_in(tools), {"query": "x"})
        assert not stub.requests
    assert result.error == "Web search has no key; set the environment variable NO_SUCH_KEY."
    async with toolbox(web_search={"provider": "brave"}) as box, opened(box, ASKED) as tools:
        assert "set key_env in [web_search]" in ((await call(tool_in(tools), {"query": "x"})).error or "")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"error": "your key quite-secret is used up"}, 429, "answered 429"),
        ({"results": "none"}, 200, "no list of results"),
        (b"<html>", 200, "not JSON"),
    ],
)
async def test_a_provider_that_fails_is_an_error_without_its_key(body: Any, status: int, said: str) -> None:
    async def raw(request: StubRequest, conn: StubConn) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        conn.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(data)) + data)

    async with StubUpstream(raw) as stub, toolbox(web_search={"url": stub.url, "key": "quite-secret"}) as box:
        async with opened(box, ASKED) as tools:
            result = await call(tool_in(tools), {"query": "x"})
    assert said in (result.error or "") and "quite-secret" not in f"{result}"
    assert result.action == {"type": "search", "query": "x"}


async def test_nothing_found_is_an_answer_too() -> None:
    async with StubUpstream(answering({"results": []})) as stub, toolbox(web_search={"url": stub.url}) as box:
        async with opened(box, ASKED) as tools:
            assert (await call(tool_in(tools), {"query": "x"})).output == "Nothing was found."


async def test_only_the_domains_the_request_names_are_given() -> None:
    async with StubUpstream(answering({"results": HITS})) as stub, toolbox(web_search={"url": stub.url}) as box:
        async with opened(box, {**ASKED, "filters": {"allowed_domains": ["wikipedia.org"]}}) as tools:
            result = await call(tool_in(tools), {"query": "x"})
    assert "wikipedia" in (result.output or "") and "example.com" not in (result.output or "")


@pytest.mark.parametrize("declared", [[ASKED, ASKED], [{**ASKED, "filters": {"allowed_domains": "a.b"}}]])
async def test_a_search_tool_that_makes_no_sense_is_refused(declared: list[Any]) -> None:
    async with toolbox(web_search={"url": "http://127.0.0.1:1"}) as box:
        with pytest.raises(RequestError):
            box.check(declared)


async def test_without_a_provider_searches_are_not_ours() -> None:
    async with toolbox() as box, opened(box, ASKED) as tools:
        assert not box.owns_web_search() and not tools.lists


async def test_it_can_be_offered_without_being_asked_for() -> None:
    async with (
        toolbox(web_search={"url": "http://127.0.0.1:1"}) as box,
        opened(box, always=["web_search"]) as tools,
    ):
        assert list(named(tools)) == ["web_search"]


@pytest.mark.parametrize(
    ("provider", "sent", "header"),
    [
        ("brave", {"q": "weather", "count": "2"}, ("x-subscription-token", "quite-secret")),
        ("tavily", {"query": "weather", "max_results": 2}, ("authorization", "Bearer quite-secret")),
    ],
)
async def test_known_providers_are_asked_in_their_own_way(
    provider: str, sent: Any, header: tuple[str, str]
) -> None:
    hits = [{**hit, "description": hit["snippet"]} for hit in HITS[:2] if isinstance(hit, dict)]
    body = {"web": {"results": hits}} if provider == "brave" else {"results": hits}
    seen: list[Any] = []

    async def handler(request: StubRequest, conn: StubConn) -> None:
        query = dict(pair.split("=") for pair in request.path.partition("?")[2].split("&") if pair)
        seen.append((request.body or query, request.headers))
        conn.answer(200, body)

    async with StubUpstream(handler) as stub, toolbox() as box:
        stub.models_handler = handler
        http = HttpSearchProvider(
            APIS[provider], box._client, url=stub.url, key="quite-secret", missing=None, max_bytes=100_000
        )
        result = await call(WebSearch(http, 2, 5), {"query": "weather"})
    assert seen[0][0] == sent and seen[0][1][header[0]] == header[1]
    assert "Rain." in (result.output or "")
