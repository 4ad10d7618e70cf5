"""`/v1/runs`: what goes on, one run and its history, the feed for clients without a socket (PROTOCOL 11.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.cursor import parse_event_id
from antiphon.core.feed_log import FeedEntry
from antiphon.core.feed_scope import FILTER_FIELDS, FeedScope, feed_tenant
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ops.feed.view import FeedView, Mode
from antiphon.ports import Authenticator
from antiphon.runs.engine import Engine
from antiphon.transport.admin_api import at_least
from antiphon.transport.body import principal_of
from antiphon.transport.feed_stream import SseSink
from antiphon.transport.replies import Json
from antiphon.transport.sse import EventStream


class RunsApi:
    """The endpoints."""

    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine = engine
        self._authenticator = authenticator

    def routes(self) -> list[Route]:
        return [
            Route("/v1/runs", self.runs, methods=["GET"]),
            Route("/v1/runs/feed", self.feed, methods=["GET"]),
            Route("/v1/runs/{response_id}", self.run, methods=["GET"]),
            Route("/v1/admin/tenants", self.tenants, methods=["GET"]),
        ]

    async def runs(self, request: Request) -> Response:
        tenant, scope = self._asked(request)
        view = await self._engine.feeds.view(tenant)
        rows = [orjson.Fragment(entry.row) for entry in view.rows if scope.passes(entry.facts)]
        return Json({"object": "list", "data": rows, "epoch": view.log.epoch, "rev": view.log.head})

    async def feed(self, request: Request) -> Response:
        tenant, scope = self._asked(request, "mode")
        principal, mode, position = principal_of(request), _mode(request), _position(request)
        feeds, timeouts = self._engine.feeds, self._engine.settings.timeouts
        view = await feeds.view_from(tenant, position)
        end_count = feeds.admit(principal)
        sink, over = SseSink(), asyncio.Event()
        subscription = view.subscribe(scope, mode, sink, position=position)
        end_watch = self._authenticator.watch(principal, lambda why: over.set())

        def closed() -> None:
            end_watch()
            subscription.close()
            end_count()

        chunks = sink.chunks(subscription, timeouts.keepalive_s)
        evicted = partial(self._engine.counts.evict, "sse")
        return EventStream(chunks, closed, timeouts.stalled_socket_s, (feeds.shutting, over), evicted)

    async def run(self, request: Request) -> Response:
        """A run that the feed has; else one that ended before, or that it has nothing of."""
        principal, response_id = principal_of(request), request.path_params["response_id"]
        view = await self._engine.feeds.view(feed_tenant(principal, request.query_params.get("tenant")))
        row = view.rows.get(response_id)
        found: Any = orjson.Fragment(row.row) if row is not None and _sees(principal, row) else None
        if found is None:
            source = await self._engine.directory.source(response_id, principal)
            found = source.state
            if found["tenant"] != view.tenant:
                view = await self._engine.feeds.view(found["tenant"])
        timeline = [_told(entry) for entry in await self._history(view, response_id)]
        return Json({"object": "run", "run": found, "timeline": timeline})

    async def tenants(self, request: Request) -> Response:
        principal = at_least(request, "operator")
        standing, live = self._engine.accounts.standing, await self._engine.feeds.live_runs()
        settings = self._engine.settings
        known = {principal.tenant}
        if principal.at_least("admin"):
            known |= {tenant.id for tenant in settings.tenant} | {key.tenant for key in settings.key}
            known |= {*live, *standing.held_tenants}
        rows = [
            {"id": tenant, "paused": standing.paused(tenant), "live_runs": live.get(tenant, 0)}
            for tenant in sorted(known)
        ]
        return Json({"object": "list", "data": rows})

    async def _history(self, view: FeedView, response_id: str) -> list[FeedEntry]:
        """What the feed has of a run, oldest first. Raises StorageError."""
        entries = view.log.of_run(response_id)
        if not entries or entries[0].event != "run.created":
            await self._engine.feeds.view_from(view.tenant, (view.log.epoch, 0))
            entries = view.log.of_run(response_id)
        return entries

    def _asked(self, request: Request, *more: str) -> tuple[str, FeedScope]:
        """more: names that the query may have beside the filter and the tenant. Raises RequestError."""
        principal, query = principal_of(request), request.query_params
        allowed = (*FILTER_FIELDS, "tenant", *more)
        unknown = sorted(set(query) - set(allowed))
        if unknown:
            name = unknown[0][:80]
            raise RequestError(f"There is no {name!r}; the query takes {', '.join(allowed)}.", param=name)
        wanted: Mapping[str, list[str]] = {name: query.getlist(name) for name in FILTER_FIELDS}
        return feed_tenant(principal, query.get("tenant")), FeedScope.of(principal, wanted)


def _sees(principal: Principal, row: FeedEntry) -> bool:
    return FeedScope.of(principal, {}).may_see(row.facts)


def _told(entry: FeedEntry) -> dict[str, Any]:
    return {"event": entry.event, "at": entry.at, "data": orjson.Fragment(entry.data)}


def _mode(request: Request) -> Mode:
    mode = request.query_params.get("mode", "all")
    if mode == "all":
        return "all"
    if mode == "latest":
        return "latest"
    raise RequestError("mode is all or latest.", param="mode")


def _position(request: Request) -> tuple[str, int] | None:
    given = request.headers.get("last-event-id")
    if not given:
        return None
    epoch, rev = parse_event_id(given)
    return epoch or "", rev
