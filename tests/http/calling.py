"""Short ways to call the server over HTTP in tests. Every wait is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from tests.support.http_client import SseBody, read_sse
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import Handler, StubUpstream

WAIT_S = 40.0
MODEL = "stub-model"
UNKNOWN_ID = "resp_" + "0" * 32


@contextlib.asynccontextmanager
async def http(server: RunningServer, key: str | None = None, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the server; `key` goes into Authorization."""
    given = {**headers, **({"authorization": f"Bearer {key}"} if key is not None else {})}
    async with httpx2.AsyncClient(base_url=server.url, timeout=WAIT_S, trust_env=False, headers=given) as client:
        yield client


@contextlib.asynccontextmanager
async def stub_server(
    handler: Handler, *, upstream: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[StubUpstream, RunningServer]]:
    """A server whose model `stub-model` is answered by `handler`."""
    async with StubUpstream(handler) as stub:
        one = {"name": "stub", "url": stub.url, "models": [MODEL], **(upstream or {})}
        async with running_server(upstream=[one], **settings) as server:
            yield stub, server


def body(input: Any = "hello", model: str = "antiphon/echo", **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": input, **fields}


async def create(server: RunningServer, *args: Any, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """POST a create that has to succeed; the response."""
    async with http(server, key) as client:
        answer = await client.post("/v1/responses", json=body(*args, **fields))
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


async def begin(server: RunningServer, *args: Any, key: str | None = None, **fields: Any) -> str:
    """Start a background run; its id."""
    return str((await create(server, *args, key=key, background=True, **fields))["id"])


async def get(server: RunningServer, path: str, key: str | None = None, **params: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.get(path, params=params)


async def follow(server: RunningServer, response_id: str, key: str | None = None, **params: Any) -> SseBody:
    """The events of a run from a cursor to its end."""
    headers = {"authorization": f"Bearer {key}"} if key is not None else {}
    query = {"stream": "true", **params}
    return await read_sse("GET", f"{server.url}/v1/responses/{response_id}", params=query, headers=headers)


async def ended(server: RunningServer, response_id: str, key: str | None = None) -> dict[str, Any]:
    """Wait for the end of a run; the response as GET gives it."""
    await follow(server, response_id, key)
    return dict((await get(server, f"/v1/responses/{response_id}", key)).json())


async def until(true: Callable[[], bool | Awaitable[bool]], wait_s: float = WAIT_S) -> None:
    """Poll a condition that no event announces."""
    deadline = time.monotonic() + wait_s
    while True:
        result = true()
        if result if isinstance(result, bool) else await result:
            return
        assert time.monotonic() < deadline, f"not true within {wait_s} s"
        await asyncio.sleep(0.005)


def script(server: RunningServer, name: str, text: str) -> str:
    """Write a scenario; the name of its model."""
    folder = server.data_dir / "scripts"
    folder.mkdir(exist_ok=True)
    # In one step: a run that was begun before may just be reading it.
    written = folder / f"{name}.new"
    written.write_text(text, encoding="utf-8")
    written.replace(folder / f"{name}.toml")
    return f"antiphon/script:{name}"


SLOW = """
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 50
repeat = 100000
"""


def slow(server: RunningServer) -> str:
    """A model that talks for half an hour."""
    return script(server, "endless", SLOW)


def key_of(secret: str, **fields: Any) -> dict[str, Any]:
    """A [[key]] table for a secret."""
    return {"sha256": hashlib.sha256(secret.encode()).hexdigest(), **fields}


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """The error of a refusal, in the one shape every refusal has."""
    given = answer.json()
    assert set(given) <= {"error", "response"}, answer.text
    error: dict[str, Any] = given["error"]
    assert {"type", "code", "message", "param"} <= error.keys(), answer.text
    return error
