"""Servers with agents: two tenants, a model server that shows what it was asked, tools that answer at once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from antiphon.ports import ToolContext
from tests.http.calling import http, key_of
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import Handler, StubUpstream, text

MODELS = ("small", "large", "other")

KEYS = [
    key_of("driver", name="driver", tenant="acme", role="driver"),
    key_of("operator", name="operator", tenant="acme", role="operator"),
    key_of("foreign", name="foreign", tenant="other", role="operator"),
    key_of("admin", name="admin", tenant="default", role="admin"),
]


def now(name: str) -> dict[str, Any]:
    """A [[tool]] that nobody calls in these tests."""
    return {
        "name": name,
        "kind": "python",
        "entry": "tests.pipeline.agents:answer",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    }


async def answer(arguments: dict[str, Any], context: ToolContext) -> str:
    return "done"


@contextlib.asynccontextmanager
async def serving(
    *, handler: Handler | None = None, auth: bool = True, data_dir: Path | None = None, **settings: Any
) -> AsyncIterator[tuple[StubUpstream, RunningServer]]:
    """A server whose models are `small`, `large` and `other`, one stub behind all of them."""
    if auth:
        settings = {"tenant": [{"id": "acme"}, {"id": "other"}], "auth": "required", "key": KEYS, **settings}
    async with StubUpstream(handler or text(1), models=MODELS) as stub:
        one = {"name": "stub", "url": stub.url, "models": MODELS}
        async with running_server(data_dir, upstream=[one], **settings) as server:
            yield stub, server


async def post(server: RunningServer, key: str | None = "driver", **fields: Any) -> httpx2.Response:
    """A create."""
    async with http(server, key) as client:
        return await client.post("/v1/responses", json={"input": "hello", **fields})


async def call(server: RunningServer, key: str, method: str, path: str, sent: Any = None) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.request(method, path, json=sent)


def agent_of(server: RunningServer, response_id: str) -> tuple[str | None, str | None]:
    """The agent of a run and the tier it came from, as dashboards see it."""
    state = server.app.registry.get(response_id)
    return state.agent, state.agent_source
