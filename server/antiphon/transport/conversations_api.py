"""`/v1/conversations`: those that clients make, their items, and the runs of any (PROTOCOL 11.9)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.principal import Principal
from antiphon.runs.engine import Engine
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.queries import check_include, limit_of, order_of
from antiphon.transport.replies import Json


class ConversationsApi:
    """The endpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._named = engine.named_conversations

    def routes(self) -> list[Route]:
        one = "/v1/conversations/{conversation_id}"
        items, item = f"{one}/items", f"{one}/items/{{item_id}}"
        return [
            Route("/v1/conversations", self.create, methods=["POST"]),
            Route(one, self.retrieve, methods=["GET"]),
            Route(one, self.update, methods=["POST"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(items, self.items, methods=["GET"]),
            Route(items, self.add_items, methods=["POST"]),
            Route(item, self.item, methods=["GET"]),
            Route(item, self.delete_item, methods=["DELETE"]),
            Route(f"{one}/runs", self.runs, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        raw = await read_object(request, self._engine.settings.limits)
        return Json(await self._named.create(raw, principal_of(request)))

    async def retrieve(self, request: Request) -> Response:
        return Json(await self._named.get(*_asked(request)))

    async def update(self, request: Request) -> Response:
        raw = await read_object(request, self._engine.settings.limits)
        conversation_id, principal = _asked(request)
        return Json(await self._named.update(conversation_id, raw, principal))

    async def delete(self, request: Request) -> Response:
        return Json(await self._named.delete(*_asked(request)))

    async def items(self, request: Request) -> Response:
        check_include(request)
        limit, order, after = limit_of(request), order_of(request), request.query_params.get("after")
        return Json(await self._named.items(*_asked(request), limit=limit, order=order, after=after))

    async def add_items(self, request: Request) -> Response:
        check_include(request)
        raw = await read_object(request, self._engine.settings.limits)
        conversation_id, principal = _asked(request)
        return Json(await self._named.add_items(conversation_id, raw, principal))

    async def item(self, request: Request) -> Response:
        check_include(request)
        conversation_id, principal = _asked(request)
        return Json(await self._named.item(conversation_id, request.path_params["item_id"], principal))

    async def delete_item(self, request: Request) -> Response:
        conversation_id, principal = _asked(request)
        return Json(await self._named.delete_item(conversation_id, request.path_params["item_id"], principal))

    async def runs(self, request: Request) -> Response:
        before = request.query_params.get("before")
        page = await self._engine.conversation_runs.page(*_asked(request), limit=limit_of(request), before=before)
        return Json({"object": "list", "data": page.states, "has_more": page.has_more})


def _asked(request: Request) -> tuple[str, Principal]:
    return request.path_params["conversation_id"], principal_of(request)
