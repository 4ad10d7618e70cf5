"""What the terminal reads over HTTP: models, and what was said before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from antiphon.cli.client.endpoint import Endpoint
from antiphon.errors import ClientError

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One response: what was asked, what came out. status: of the response."""

    response_id: str
    question: str
    answer: str
    status: str


class Pages:
    """Made by `open_pages`."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def models(self) -> list[str]:
        """Names of the models the caller may use. Raises ClientError."""
        return [str(model["id"]) for model in (await self._get("/v1/models"))["data"]]

    async def question(self, response_id: str) -> str:
        """The text that a run was asked. Raises ClientError."""
        path = f"/v1/responses/{quote(response_id, safe='')}/input_items"
        return said_by_user((await self._get(path, limit="100", order="asc"))["data"])

    async def turns(self, newest: str | None, most: int) -> list[Turn]:
        """The chain of responses that leads to `newest`, oldest first, at most so many. Raises ClientError."""
        turns: list[Turn] = []
        while newest is not None and len(turns) < most:
            response = await self._get(f"/v1/responses/{quote(newest, safe='')}")
            answer, status = said_by_model(response), str(response["status"])
            turns.append(Turn(newest, await self.question(newest), answer, status))
            newest = response.get("previous_response_id")
        return turns[::-1]

    async def parent(self, response_id: str) -> str | None:
        """The response that this one continues. Raises ClientError."""
        found = (await self._get(f"/v1/responses/{quote(response_id, safe='')}")).get("previous_response_id")
        return str(found) if found is not None else None

    async def _get(self, path: str, **query: str) -> dict[str, Any]:
        try:
            answer = await self._client.get(path, params=query)
            found = answer.json()
            if answer.status_code != 200:
                raise ClientError(str(found["error"]["message"]), code=str(found["error"]["code"]))
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise ClientError(f"{path} could not be read: {error}") from error
        return dict(found)


@asynccontextmanager
async def open_pages(endpoint: Endpoint, key: str | None) -> AsyncIterator[Pages]:
    """A client for the pages of a server."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(
        base_url=endpoint.origin, headers=headers, timeout=TIMEOUT_S, trust_env=not endpoint.is_loopback
    ) as client:
        yield Pages(client)


def said_by_user(items: list[dict[str, Any]]) -> str:
    """The texts of the user among input items."""
    mine = [item for item in items if item.get("role") == "user"]
    return "\n".join(text for item in mine if (text := _text(item.get("content"))))


def said_by_model(response: dict[str, Any]) -> str:
    """The texts of the messages of a response."""
    messages = [item for item in response.get("output", []) if item.get("type") == "message"]
    return "\n".join(text for item in messages if (text := _text(item.get("content"))))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
