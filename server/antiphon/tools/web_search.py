"""`web_search` as a tool of the server, with a provider that can be exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2
import orjson

from antiphon.errors import ToolError
from antiphon.ports import ToolContext, ToolOutput, ToolSpec
from antiphon.tools.credentials import Credentials
from antiphon.tools.http_client import fetch


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit."""

    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    """Somebody who searches the web."""

    async def search(self, query: str, count: int) -> Sequence[SearchResult]:
        """At most `count` results, best first. Raises ToolError."""
        ...


@dataclass(frozen=True, slots=True)
class SearchApi:
    """How a provider is asked. path: where the list stands in its answer. Query and count go into the body of a
    POST, or into the address of a GET. key_prefix: stands before the key in its header."""

    url: str
    method: str
    query: str
    count: str
    key_header: str
    key_prefix: str
    path: tuple[str, ...]
    snippet: str


APIS = {
    "http": SearchApi("", "POST", "query", "count", "authorization", "Bearer ", ("results",), "snippet"),
    "brave": SearchApi(
        "https://api.search.brave.com/res/v1/web/search",
        "GET",
        "q",
        "count",
        "x-subscription-token",
        "",
        ("web", "results"),
        "description",
    ),
    "tavily": SearchApi(
        "https://api.tavily.com/search",
        "POST",
        "query",
        "max_results",
        "authorization",
        "Bearer ",
        ("results",),
        "content",
    ),
}


class HttpSearchProvider:
    """A provider behind one of the known APIs.

    key: None where none is configured. missing: what to tell the operator if a key is needed and not there.
    """

    def __init__(
        self,
        api: SearchApi,
        client: httpx2.AsyncClient,
        *,
        url: str,
        key: str | None,
        missing: str | None,
        max_bytes: int,
    ) -> None:
        self._api = api
        self._client = client
        self._url = url or api.url
        self._credentials = Credentials({api.key_header: f"{api.key_prefix}{key}"} if key else {})
        self._missing = missing
        self._max_bytes = max_bytes

    async def search(self, query: str, count: int) -> Sequence[SearchResult]:
        """Raises ToolError."""
        if self._missing is not None:
            raise ToolError(f"Web search has no key; {self._missing}.")
        fields: dict[str, str | int] = {self._api.query: query, self._api.count: count}
        headers = {"accept": "application/json", **self._credentials.headers()}
        if self._api.method == "GET":
            request = self._client.build_request("GET", self._url, params=fields, headers=headers)
        else:
            request = self._client.build_request("POST", self._url, json=fields, headers=headers)
        answer = await fetch(self._client, request, self._max_bytes)
        if not answer.ok:
            text = self._credentials.scrub(answer.text)[:300].strip()
            raise ToolError(f"The search provider answered {answer.status}: {text or '(no text)'}")
        return _results(answer.text, self._api)[:count]


def _results(text: str, api: SearchApi) -> list[SearchResult]:
    try:
        found = orjson.loads(text)
    except ValueError as error:
        raise ToolError("The search provider's answer is not JSON.") from error
    for step in api.path:
        found = found.get(step) if isinstance(found, dict) else None
    if found is None:
        return []  # Brave leaves `web` out where it found nothing
    if not isinstance(found, list):
        raise ToolError("The search provider's answer has no list of results.")
    return [
        SearchResult(_text(hit.get("title")), hit["url"], _text(hit.get(api.snippet)))
        for hit in found
        if isinstance(hit, dict) and isinstance(hit.get("url"), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class WebSearch:
    """The tool. domains: only results of these hosts and their subdomains; empty: all."""

    def __init__(
        self, provider: SearchProvider, count: int, timeout_s: float, domains: Sequence[str] = ()
    ) -> None:
        self._provider = provider
        self._count = count
        self._domains = tuple(domain.lower().lstrip(".") for domain in domains)
        self.spec = ToolSpec(
            name="web_search",
            description="Search the web. Gives titles, addresses and short excerpts of the best pages.",
            parameters={
                "type": "object",
                "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 1000}},
                "required": ["query"],
                "additionalProperties": False,
            },
            item_type="web_search_call",
            side_effects=False,
            timeout_s=timeout_s,
        )

    def within(self, domains: Sequence[str]) -> WebSearch:
        """The same for one request that names the domains it wants."""
        return WebSearch(self._provider, self._count, self.spec.timeout_s, domains)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Raises ToolError."""
        query = arguments["query"]
        found = [hit for hit in await self._provider.search(query, self._count) if self._wanted(hit.url)]
        sources = [{"type": "url", "url": hit.url} for hit in found]
        action: Mapping[str, Any] = {"type": "search", "query": query, "sources": sources}
        blocks = [f"{n}. {hit.title}\n{hit.url}\n{hit.snippet}".rstrip() for n, hit in enumerate(found, 1)]
        return ToolOutput("\n\n".join(blocks) or "Nothing was found.", action)

    def _wanted(self, url: str) -> bool:
        if not self._domains:
            return True
        try:
            host = (urlsplit(url).hostname or "").lower()
        except ValueError:
            return False
        return any(host == domain or host.endswith(f".{domain}") for domain in self._domains)
