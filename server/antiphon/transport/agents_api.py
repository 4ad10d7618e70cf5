"""`/v1/agents`: the agents a caller can name, and those its tenant stores (PROTOCOL 11.6)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.agent_names import check_agent_name
from antiphon.core.principal import Principal
from antiphon.governance.agents import Agent
from antiphon.runs.engine import Engine
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.replies import Json

_SHOWN_TO_ALL = frozenset({"name", "source", "model", "client_tools", "tools"})


class AgentsApi:
    """The endpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        one = "/v1/agents/{name:path}"
        return [
            Route("/v1/agents", self.list, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.put, methods=["PUT"]),
            Route(one, self.delete, methods=["DELETE"]),
        ]

    async def list(self, request: Request) -> Response:
        principal = principal_of(request)
        agents = await self._engine.agents.visible(principal.tenant)
        return Json({"object": "list", "data": [_shown(agent, principal) for agent in agents]})

    async def get(self, request: Request) -> Response:
        principal = principal_of(request)
        name = check_agent_name(request.path_params["name"], "name")
        agent = await self._engine.agents.resolve(principal.tenant, name)
        return Json(_shown(agent, principal))

    async def put(self, request: Request) -> Response:
        principal = principal_of(request)
        raw = await read_object(request, self._engine.settings.limits)
        agent, is_new = await self._engine.agent_keeper.put(principal, request.path_params["name"], raw)
        return Json(_shown(agent, principal), status_code=201 if is_new else 200)

    async def delete(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._engine.agent_keeper.delete(principal_of(request), name)
        return Json({"name": name, "object": "agent", "deleted": True})


def _shown(agent: Agent, principal: Principal) -> dict[str, Any]:
    """As the caller may see it: what an agent is told is for admins, and for operators of the tenant it is of."""
    whole = principal.at_least("admin") or (agent.source == "user" and principal.at_least("operator"))
    row = agent.model_dump(mode="json", include=None if whole else set(_SHOWN_TO_ALL))
    return {"object": "agent", **row}
