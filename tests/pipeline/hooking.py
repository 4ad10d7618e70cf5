"""Middlewares in a running server, and what a run left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from antiphon.hooks import Middleware
from tests.support.server import RunningServer


def around(server: RunningServer, middleware: Middleware, name: str = "test", timeout_s: float = 5.0) -> None:
    """Put a middleware around all runs of a server, inside those that are there."""
    server.app.hooks.dispatcher.subscribe("agent.run", middleware, name=name, timeout_s=timeout_s)


def lifecycle(server: RunningServer, tenant: str = "acme") -> list[tuple[str, str]]:
    """What the feed says, as (run id, event)."""
    entries = server.app.lifecycle.since(tenant, 0) or []
    return [(orjson.loads(entry.encoded_row)["response_id"], entry.event) for entry in entries]


def events_of(server: RunningServer, response_id: str, tenant: str = "acme") -> Sequence[str]:
    """The lifecycle events of one run."""
    return [event for run_id, event in lifecycle(server, tenant) if run_id == response_id]


async def rows(server: RunningServer, table: str) -> list[Any]:
    """Everything in a table of the store, once what is submitted is written."""
    return await server.app.backends.store.writer.submit(
        lambda connection: connection.execute(f"SELECT * FROM {table}").fetchall()
    )


async def nothing_is_left(server: RunningServer) -> None:
    """No run, no row, no event, no entry in the feed."""
    assert list(server.app.registry) == []
    assert server.app.engine.directory.live_runs() == []
    assert lifecycle(server) == []
    for table in ("responses", "journal", "items", "idempotency", "checkpoints"):
        assert await rows(server, table) == [], table
