"""`kind = "http"` of `[[context]]`: context from a service of the operator.

    POST <url>
    {"tenant", "principal", "agent", "conversation", "run_id", "source"}

It answers `{"text": "..."}`, or 204 where it has nothing to say. Everything else is a failure: another status, a
redirect, a compressed or too large answer. The address is the operator's and never of a request, so any will do.
"""

from __future__ import annotations

from dataclasses import asdict

import httpx2
import orjson

from antiphon.errors import ToolError
from antiphon.hooks import ContextRequest
from antiphon.settings.hooks import ContextSettings
from antiphon.tools.credentials import Credentials
from antiphon.tools.http_client import fetch, open_client

_JSON_OVERHEAD = 8
"""A byte of text may take six in JSON (`\\u0000`), and something stands around it."""


class HttpContexts:
    """Makes the providers of this kind; they share connections, opened when the first one is made."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    def __call__(self, one: ContextSettings) -> HttpContext:
        """Raises StartupError for a variable of `headers_env` that is not set."""
        self._client = self._client or open_client()
        return HttpContext(one, self._client)

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.aclose()


class HttpContext:
    """One configured service."""

    def __init__(self, one: ContextSettings, client: httpx2.AsyncClient) -> None:
        self._url = one.url or ""
        self._credentials = Credentials.from_environment(f"context {one.name!r}", one.headers_env)
        self._max_bytes = one.max_bytes * _JSON_OVERHEAD
        self._client = client

    async def text(self, request: ContextRequest) -> str | None:
        """Raises ToolError."""
        headers = {"content-type": "application/json", "accept": "application/json", **self._credentials.headers()}
        asked = self._client.build_request(
            "POST", self._url, content=orjson.dumps(asdict(request)), headers=headers
        )
        answer = await fetch(self._client, asked, self._max_bytes)
        if answer.status == httpx2.codes.NO_CONTENT:
            return None
        if not answer.ok:
            raise ToolError(f"The context service answered {answer.status}.")
        try:
            text = orjson.loads(answer.text)["text"]
        except (ValueError, TypeError, KeyError) as error:
            raise ToolError("The context service answered without a text.") from error
        if not isinstance(text, (str, type(None))):
            raise ToolError("The context service answered with a text that is none.")
        return text
