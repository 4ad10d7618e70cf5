"""Servers that know keys, tokens and stored keys, and ways to be their clients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import connect

from antiphon.core.principal import Role
from antiphon.store import api_keys
from antiphon.store.api_keys import ApiKey
from tests.http.calling import key_of
from tests.identity.signing import SECRET
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import WsClient, ws_client

KEY = "static-key"
TENANTS = [{"id": "acme"}, {"id": "other"}]


@contextlib.asynccontextmanager
async def guarded(**settings: Any) -> AsyncIterator[RunningServer]:
    """A server with one static key of acme and tokens of HS256."""
    given = {
        "auth": "required",
        "key": [key_of(KEY, name="ci", tenant="acme")],
        "tenant": TENANTS,
        "jwt": {"algorithm": "HS256", "secret": SECRET, "leeway_s": 0},
        **settings,
    }
    async with running_server(**given) as server:
        yield server


async def store_key(server: RunningServer, secret: str, **fields: Any) -> str:
    """A key in the store, as the command makes it; its id."""
    role: Role = fields.pop("role", "driver")
    given = {"name": secret, "owner": None, "tenant": "acme", "created_at": time.time(), **fields}
    key = ApiKey(id=f"key_{secret}", sha256=hashlib.sha256(secret.encode()).hexdigest(), role=role, **given)
    await server.app.backends.store.writer.submit(api_keys.create(key))
    return key.id


async def revoke_key(server: RunningServer, key_id: str) -> None:
    """As another process would: this one has to find out."""
    assert await server.app.backends.store.writer.submit(api_keys.revoke(key_id, time.time()))


@contextlib.asynccontextmanager
async def bare(server: RunningServer, *, query: str = "", origin: str | None = None) -> AsyncIterator[WsClient]:
    """A socket that shows nothing in its headers, as one of a page."""
    async with ws_client(server.ws_url + query, api_key=None, origin=origin) as client:
        yield client


async def close_of_page(
    server: RunningServer, query: str = "", **headers: str
) -> tuple[dict[str, Any], int | None]:
    """What a page sees of a refused upgrade: one frame, and the code of the close."""
    async with connect(server.ws_url + query, origin=server.url, additional_headers=headers, proxy=None) as socket:  # type: ignore[arg-type]
        frame = json.loads(await socket.recv())
        await socket.wait_closed()
        return frame, socket.close_code
