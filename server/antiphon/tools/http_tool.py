"""`kind = "http"`: a function behind a URL.

    POST <url>
    Content-Type: application/json
    X-Antiphon-Run-Id, X-Antiphon-Call-Id, traceparent where runs are traced, and the headers of `headers_env`

    {<the arguments>}

Any 2xx answer is the output as it is, JSON or text. Everything else is an error for the model: another status, a
redirect, and what calls itself JSON and is none.
"""

from __future__ import annotations

from typing import Any

import httpx2
import orjson
from pydantic_core import from_json

from antiphon.errors import ToolError
from antiphon.ports import ToolContext, ToolOutput, ToolSpec
from antiphon.tools.credentials import Credentials
from antiphon.tools.http_client import Answer, fetch

_SHOWN = 500
_NO_CONTENT = 204


class HttpTool:
    """One configured function. Its URL is the operator's, so any address will do, private ones too."""

    def __init__(self, spec: ToolSpec, url: str, credentials: Credentials, client: httpx2.AsyncClient) -> None:
        self.spec = spec
        self._url = url
        self._credentials = credentials
        self._client = client

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Raises ToolError."""
        request = self._client.build_request(
            "POST",
            self._url,
            content=orjson.dumps(arguments),
            headers={
                "accept": "application/json, text/*;q=0.9, */*;q=0.1",
                "content-type": "application/json",
                "x-antiphon-run-id": context.run_id,
                "x-antiphon-call-id": context.call_id,
                **context.trace,
                **self._credentials.headers(),
            },
        )
        answer = await fetch(self._client, request, self.spec.max_output_bytes)
        text = self._credentials.scrub(answer.text)
        if not answer.ok:
            raise ToolError(f"The tool's server answered {answer.status}: {text[:_SHOWN].strip() or '(no text)'}")
        if _is_json(answer) and not _is_readable(answer.text):
            raise ToolError("The tool's server answered with JSON that is broken.")
        return ToolOutput(text)


def _is_json(answer: Answer) -> bool:
    return answer.status != _NO_CONTENT and (
        answer.media_type == "application/json" or answer.media_type.endswith("+json")
    )


def _is_readable(text: str) -> bool:
    try:
        from_json(text.removeprefix("\ufeff"))
    except ValueError:
        return False
    return True
