"""Agents in three tiers: what a tenant has of its own, then what everybody shares, then the system's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson

from antiphon.core.agent_names import DEFAULT
from antiphon.errors import RequestError
from antiphon.settings.agents import AgentOptions, AgentSettings
from antiphon.store.agents import StoredAgents

AgentSource = Literal["user", "community", "system"]


class Agent(AgentOptions):
    """An agent as a run has it. source: the tier it came from."""

    name: str
    source: AgentSource

    def encoded(self) -> dict[str, Any]:
        """As it is kept with a run, so that the run stays the same whatever becomes of the agent."""
        return self.model_dump(exclude_defaults=True)


BUILT_IN = Agent(name=DEFAULT, source="system")
"""The agent of a create that names none: it adds nothing."""


class Agents:
    """Finds agents by name, and keeps those that tenants store."""

    def __init__(self, configured: Sequence[AgentSettings], stored: StoredAgents) -> None:
        self._stored = stored
        self._of_tenants: dict[tuple[str, str], Agent] = {}
        self._shared: dict[str, dict[str, Agent]] = {"community": {}, "system": {}}
        for one in configured:
            agent = Agent(source=one.tier, **one.model_dump(exclude={"tier", "tenant"}))
            if one.tenant is not None:
                self._of_tenants[one.tenant, one.name] = agent
            else:
                self._shared[one.tier][one.name] = agent

    async def resolve(self, tenant: str, name: str | None) -> Agent:
        """The agent with this name for this tenant; without a name the built-in one.

        Raises RequestError `agent_not_found`, StorageError.
        """
        if name is None or name == DEFAULT:
            return BUILT_IN
        own = await self._stored.find(tenant, name)
        if own is not None:
            return _from_row(name, own)
        for tier in (self._of_tenants.get((tenant, name)), *(known.get(name) for known in self._shared.values())):
            if tier is not None:
                return tier
        raise no_agent(name)

    async def visible(self, tenant: str) -> list[Agent]:
        """Every agent the tenant can name, in the order of their names; of equal names the one that counts.

        Raises StorageError.
        """
        found: dict[str, Agent] = {DEFAULT: BUILT_IN}
        for known in reversed(self._shared.values()):
            found |= known
        found |= {name: agent for (owner, name), agent in self._of_tenants.items() if owner == tenant}
        found |= {name: _from_row(name, row) for name, row in (await self._stored.of_tenant(tenant)).items()}
        return [found[name] for name in sorted(found)]

    async def stored_names(self, tenant: str) -> frozenset[str]:
        """Those that the tenant has stored. Raises StorageError."""
        return frozenset(await self._stored.of_tenant(tenant))

    def configured(self) -> Mapping[str, Agent]:
        """Those of the configuration, by what names them to the operator."""
        shared = {name: agent for known in self._shared.values() for name, agent in known.items()}
        return shared | {f"{name} of {tenant}": agent for (tenant, name), agent in self._of_tenants.items()}


def encode_options(options: AgentOptions) -> bytes:
    """As a tenant's agent is stored."""
    return orjson.dumps(options.model_dump(exclude_defaults=True))


def kept_agent(kept: Mapping[str, Any] | None) -> Agent:
    """The agent that `Agent.encoded` kept with a run. Raises ValueError where it cannot be read."""
    return BUILT_IN if kept is None else Agent.model_validate(kept)


def no_agent(name: str, param: str = "antiphon.agent") -> RequestError:
    """The refusal of an agent that does not exist, or is another tenant's: the two are not told apart."""
    return RequestError(f"There is no agent {name[:128]!r} here.", code="agent_not_found", param=param)


def _from_row(name: str, row: bytes) -> Agent:
    return Agent(name=name, source="user", **orjson.loads(row))
