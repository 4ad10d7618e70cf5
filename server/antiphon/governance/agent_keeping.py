"""What operators do to the agents of their tenant."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import ValidationError

from antiphon.core.agent_names import DEFAULT, check_agent_name
from antiphon.core.faults import refusal
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.governance.admission.admission import Admission
from antiphon.governance.agents import Agent, Agents, encode_options, no_agent
from antiphon.governance.audit import Audit
from antiphon.governance.context import ContextProviders
from antiphon.governance.model_policy import ModelPolicy
from antiphon.ports import Clock
from antiphon.settings.agents import AgentOptions
from antiphon.store import agents as stored


class AgentKeeper:
    """Stores and deletes them; each time there is an audit row before the answer."""

    def __init__(
        self,
        agents: Agents,
        policy: ModelPolicy,
        context: ContextProviders,
        admission: Admission,
        audit: Audit,
        clock: Clock,
    ) -> None:
        self._agents = agents
        self._policy = policy
        self._context = context
        self._admission = admission
        self._audit = audit
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()

    async def put(self, principal: Principal, name: str, raw: dict[str, Any]) -> tuple[Agent, bool]:
        """Store an agent for the tenant; gives it, and whether it is new.

        Nodes that store agents of one tenant in the same moment may go over its quota by one each.
        Raises RequestError `forbidden`, `invalid_request`, `model_not_allowed`, `quota_exceeded`, StorageError.
        """
        _check_operator(principal)
        check_agent_name(name, "name")
        if name == DEFAULT:
            raise RequestError("The agent 'default' is built in; choose another name.", param="name")
        options = self._options(principal, raw)
        async with self._one_at_a_time:
            known = await self._agents.stored_names(principal.tenant)
            if name not in known:
                self._admission.check_agents(principal, len(known))
            work = stored.put(principal.tenant, name, encode_options(options), self._clock.now())
            detail = {"fields": sorted(options.model_fields_set)}
            await self._audit.record_with(principal, "agent.put", f"agent:{name}", detail, work)
        return Agent(name=name, source="user", **options.model_dump()), name not in known

    async def delete(self, principal: Principal, name: str) -> None:
        """Forget one that was stored. Raises RequestError `forbidden`, `agent_not_found`, StorageError."""
        _check_operator(principal)
        if name not in await self._agents.stored_names(principal.tenant):
            raise no_agent(name, "name")
        work = stored.delete(principal.tenant, name)
        await self._audit.record_with(principal, "agent.delete", f"agent:{name}", None, work)

    def _options(self, principal: Principal, raw: dict[str, Any]) -> AgentOptions:
        try:
            options = AgentOptions.model_validate(raw)
        except ValidationError as error:
            raise refusal(error, raw) from error
        self._context.choose(options.context)
        for model in (options.model, *(options.fallbacks or ())):
            if model is not None and not self._policy.may_use(principal.tenant, model):
                raise RequestError(
                    f"The model {model!r} is not open to this tenant.", code="model_not_allowed", param="model"
                )
        return options


def _check_operator(principal: Principal) -> None:
    if not principal.at_least("operator"):
        raise RequestError("Agents of a tenant are changed by its operators.", code="forbidden")
