"""The tables of agents: `[[agent]]`. What an operator may store for a tenant has the same fields."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from antiphon.core.agent_names import AGENT_NAME, DEFAULT
from antiphon.settings.table import Table

_Name = Annotated[str, Field(min_length=1, max_length=256)]
_Label = Annotated[str, Field(max_length=64)]
_Value = Annotated[str, Field(max_length=256)]


class AgentOptions(Table):
    """What an agent adds to the creates that name it."""

    model: _Name | None = Field(None, description="Absent: that of the request, else `default_model`.")
    fallbacks: tuple[_Name, ...] | None = Field(
        None,
        max_length=16,
        description="Models that answer in its place when its upstream fails, in order. Absent: those of "
        "`[fallbacks]`; empty: none.",
    )
    instructions: str | None = Field(
        None, max_length=256 * 1024, description="Stand before the request's own, with a blank line between."
    )
    tools: tuple[_Name, ...] | None = Field(
        None,
        max_length=256,
        description="The only tools of the server, and types of tools of the upstream, that its runs may have; "
        "offered where the request says nothing about tools. `mcp`: servers that a request names by URL. Absent: "
        "all; empty: none.",
    )
    client_tools: Literal["return", "hold"] = Field(
        "return",
        description="`hold`: runs wait for outputs of clients, if their creator said hello or sent `antiphon`.",
    )
    context: tuple[_Name, ...] | None = Field(
        None, max_length=64, description="Context providers asked where the request names none."
    )
    strict_fallbacks: bool | None = Field(None, description="Absent: that of the server.")
    labels: dict[_Label, _Value] = Field({}, max_length=16, description="Of its runs, beside the request's own.")

    @model_validator(mode="after")
    def _check_chain(self) -> AgentOptions:
        chain = [name for name in (self.model, *(self.fallbacks or ())) if name is not None]
        for name in chain:
            if chain.count(name) > 1:
                raise ValueError(f"its fallbacks go round in a circle: {name!r} is named twice")
        return self


class AgentSettings(AgentOptions):
    """An agent that requests name as `model: "agent:<name>"` or in `antiphon.agent`.

    Of agents with one name a tenant's own comes before a community one, and that before a system one.
    """

    name: str = Field(
        pattern=f"^{AGENT_NAME}$",
        examples=[
            '[[agent]]\nname = "reviewer"\nmodel = "local-model"\nfallbacks = ["smaller-model"]\n'
            'instructions = "Review what you are shown."\ntools = ["search"]'
        ],
    )
    tier: Literal["system", "community", "user"] = Field("system", description="`user`: of one tenant.")
    tenant: str | None = Field(None, description="Whose it is, with tier `user`.")

    @model_validator(mode="after")
    def _check_name(self) -> AgentSettings:
        if self.name == DEFAULT:
            raise ValueError("the agent 'default' is built in; choose another name")
        if (self.tier == "user") != (self.tenant is not None):
            raise ValueError(f"agent {self.name!r}: tenant belongs to tier = 'user', and is needed there")
        return self


def check_agents(agents: Sequence[AgentSettings], tenants: Collection[str]) -> None:
    """Names that cannot be told apart, and tenants that are not configured. Raises ValueError."""
    seen: set[tuple[str, str | None, str]] = set()
    for one in agents:
        place = (one.tier, one.tenant, one.name)
        if place in seen:
            whose = f"tenant {one.tenant!r}" if one.tenant else f"the {one.tier} tier"
            raise ValueError(f"two agents of {whose} are named {one.name!r}; names must differ")
        seen.add(place)
        if one.tenant is not None and one.tenant not in tenants:
            raise ValueError(f"agent {one.name!r} names tenant {one.tenant!r}, which is not configured")
