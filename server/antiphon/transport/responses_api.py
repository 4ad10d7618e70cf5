"""`/v1/responses` over HTTP. What the socket cannot do, HTTP cannot: every verb goes through the same door."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.create_request import parse_create
from antiphon.core.cursor import BEFORE_FIRST, parse_event_id
from antiphon.core.input_items import list_items, page
from antiphon.core.participants import Participant
from antiphon.core.principal import Principal
from antiphon.core.run_state import Origin
from antiphon.errors import CursorError, RequestError
from antiphon.journal.frames import Batch
from antiphon.ports import Authenticator
from antiphon.runs.directory import Source
from antiphon.runs.engine import Engine
from antiphon.runs.run import Create, Followed, Run
from antiphon.runs.service import Started
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.held_api import caller_of
from antiphon.transport.queries import check_include, limit_of, order_of, wants_stream
from antiphon.transport.replies import Json, error_response
from antiphon.transport.sse import EventStream, follow

_CANCEL_WAIT_S = 5.0
"""How long a cancel waits for the terminal, so that its answer is the final object."""

_UPSTREAM_TOKEN = "x-upstream-authorization"  # nosec B105
"""The header's name."""


class ResponsesApi:
    """The endpoints."""

    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine = engine
        self._authenticator = authenticator

    def routes(self) -> list[Route]:
        one = "/v1/responses/{response_id}"
        return [
            Route("/v1/responses", self.create, methods=["POST"]),
            Route("/v1/responses/compact", self.compact, methods=["POST"]),
            Route("/v1/responses/input_tokens", self.input_tokens, methods=["POST"]),
            Route(one, self.retrieve, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route(f"{one}/input_items", self.input_items, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        raw = await read_object(request, self._engine.settings.limits)
        create = parse_create(raw)
        if create.background and not create.stored:
            raise RequestError("A background response has to be stored; leave store out.", param="background")
        origin: Origin = "background" if create.background else "sse" if create.stream else "http"
        caller = caller_of(request, self._engine.ids)
        command = Create(
            request=create,
            raw=raw,
            origin=origin,
            idempotency_key=_idempotency_key(request) or create.idempotency_key,
            caller_token=request.headers.get(_UPSTREAM_TOKEN) or create.antiphon.upstream_authorization,
            instance=caller.instance,
            traceparent=request.headers.get("traceparent") or create.traceparent,
        )
        started = await self._engine.service.start(command, principal_of(request))
        if create.stream:
            source = await self._engine.directory.source(started.response_id, principal_of(request))
            return self._stream(source, BEFORE_FIRST, caller, principal_of(request), creator=True)
        if create.background:
            return await self._object(started.response_id, principal_of(request))
        return await self._whole(started, request, caller)

    async def compact(self, request: Request) -> Response:
        command = await self._about_history(request)
        return Json(await self._engine.compaction.compact(command, principal_of(request)))

    async def input_tokens(self, request: Request) -> Response:
        command = await self._about_history(request)
        count = await self._engine.token_counting.count(command, principal_of(request))
        return Json({"object": "response.input_tokens", "input_tokens": count})

    async def _about_history(self, request: Request) -> Create:
        """A create that becomes no run. Raises RequestError."""
        given = await read_object(request, self._engine.settings.limits)
        raw = {key: value for key, value in given.items() if value is not None}
        create = parse_create(raw)
        token = request.headers.get(_UPSTREAM_TOKEN) or create.antiphon.upstream_authorization
        return Create(request=create, raw=raw, origin="http", caller_token=token)

    async def retrieve(self, request: Request) -> Response:
        check_include(request)
        response_id = request.path_params["response_id"]
        if not wants_stream(request):
            return await self._object(response_id, principal_of(request))
        source = await self._engine.directory.source(response_id, principal_of(request))
        after, epoch = _cursor(request)
        plan = await self._engine.directory.plan(source, after, epoch)
        if plan.mode == "snapshot":
            self._engine.counts.attach("sse", plan.mode, 0)
            expired = CursorError(
                "Events after this position are gone; here is the response as it stands.",
                extra={"epoch": source.log.epochs.current, "head": plan.after},
            )
            return error_response(expired, response=orjson.Fragment(source.response))
        self._engine.counts.attach("sse", plan.mode, source.log.shown - plan.after)
        if self._engine.tracing is not None:
            self._engine.tracing.attached(response_id, "sse", plan.mode, request.headers.get("traceparent"))
        return self._stream(source, plan.after, caller_of(request, self._engine.ids), principal_of(request))

    async def cancel(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        principal = principal_of(request)
        run = await self._engine.directory.find(response_id, principal)
        await self._engine.reach.cancel(response_id, principal)
        if run is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CANCEL_WAIT_S):
                    await _until_ended(run)
        return Json(await self._engine.reach.response(response_id, principal))

    async def delete(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        await self._engine.service.delete(response_id, principal_of(request))
        return Json({"id": response_id, "object": "response", "deleted": True})

    async def input_items(self, request: Request) -> Response:
        check_include(request)
        response_id = request.path_params["response_id"]
        stored = await self._engine.directory.stored(response_id, principal_of(request))
        limit, order = limit_of(request), order_of(request)
        items = list_items(response_id, stored.input)
        return Json(page(items, limit=limit, order=order, after=request.query_params.get("after")))

    async def _object(self, response_id: str, principal: Principal) -> Response:
        """The response object: of a live run as it stands, else as stored."""
        return Json(await self._engine.reach.response(response_id, principal, stored_only=True))

    async def _whole(self, started: Started, request: Request, caller: Participant) -> Response:
        """Wait for the end and answer with the response. A client that leaves only stops listening.

        Where this process stops before that, the answer is the response as it stands. Where the credential ends
        before that, the run goes on and its caller hears no more of it. Raises Unauthorized.
        """
        run = started.run or await self._engine.directory.find(started.response_id, principal_of(request))
        if run is None:
            return await self._stored(started.response_id, principal_of(request))
        self._engine.company.listened(run)
        self._engine.company.joined(run, caller, creator=True)
        over = asyncio.Event()
        end_watch = self._authenticator.watch(principal_of(request), lambda why: over.set())
        ends = (_until_ended(run), run.left.wait(), _disconnected(request), over.wait())
        tasks = [asyncio.ensure_future(end) for end in ends]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            end_watch()
            for task in tasks:
                task.cancel()
            self._engine.company.unlistened(run)
            self._engine.company.left(run, caller.connection)
        if over.is_set() and not run.log.ended:
            self._authenticator.check(principal_of(request))
        if isinstance(run, Run) and (run.outcome is not None or not run.log.ended):
            return _final(run)
        if run.stored and run.log.ended:
            return await self._stored(run.id, principal_of(request))
        return Json(await self._engine.reach.response(run.id, principal_of(request)))

    async def _stored(self, response_id: str, principal: Principal) -> Response:
        stored = await self._engine.directory.stored(response_id, principal)
        return Json(stored.response, status_code=stored.http_status or 200)

    def _stream(
        self, source: Source, after: int, caller: Participant, principal: Principal, *, creator: bool = False
    ) -> Response:
        """Ends when the credential does, too."""
        over = asyncio.Event()
        end_watch = self._authenticator.watch(principal, lambda why: over.set())
        timeouts = self._engine.settings.timeouts
        run = source.run
        if run is not None:
            self._engine.company.listened(run)
            self._engine.company.joined(run, caller, creator=creator)

        def closed() -> None:
            end_watch()
            if run is not None:
                self._engine.company.unlistened(run)
                self._engine.company.left(run, caller.connection)

        chunks = follow(source.log, self._engine.journal, after, timeouts.keepalive_s)
        left = run.left if run is not None else asyncio.Event()
        evicted = partial(self._engine.counts.evict, "sse")
        return EventStream(chunks, closed, timeouts.stalled_socket_s, (left, over), evicted)


async def _until_ended(run: Followed) -> None:
    """Wait for the end of a run, wherever it goes on meanwhile."""
    ended = asyncio.Event()

    def on_batch(batch: Batch) -> None:
        if run.log.ended:
            ended.set()

    run.log.listen(on_batch)
    try:
        if not run.log.ended:
            await ended.wait()
    finally:
        run.log.unlisten(on_batch)


def _final(run: Run) -> Response:
    """The answer of a create that waited: the failed response with the status that says whose fault it was."""
    outcome = run.outcome
    if outcome is None or outcome.status != "failed":
        return Json(run.response())
    headers = dict(outcome.headers or {})
    return Json(run.response(), status_code=outcome.http_status or 500, headers=headers)


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= 256:
        raise RequestError("Idempotency-Key is 1 to 256 characters.", param="Idempotency-Key")
    return key


def _cursor(request: Request) -> tuple[int, str | None]:
    """(after, epoch) from `starting_after` and `epoch`, or from `Last-Event-ID` where they are absent."""
    query = request.query_params
    if "starting_after" not in query and request.headers.get("last-event-id"):
        epoch, number = parse_event_id(request.headers["last-event-id"])
        return number, epoch
    given = query.get("starting_after")
    if given is None:
        return BEFORE_FIRST, None
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise RequestError("starting_after is a sequence number.", param="starting_after")
    return int(given), query.get("epoch")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
