"""What agents and tenants of the configuration name has to exist: who mistypes it, reads so at the start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from antiphon.core.tool_scope import ANY_SERVER
from antiphon.errors import StartupError
from antiphon.governance.agents import Agent
from antiphon.governance.context import ContextProviders
from antiphon.ports import Toolbox
from antiphon.settings import Settings
from antiphon.upstream.router import UpstreamRouter

_HOSTED = frozenset({ANY_SERVER, "web_search", "file_search", "code_interpreter", "image_generation"})
"""Types of tools that model servers execute. Others count where an upstream is declared to know them."""


def check_configured(
    settings: Settings,
    agents: Mapping[str, Agent],
    router: UpstreamRouter,
    context: ContextProviders,
    toolbox: Toolbox,
) -> None:
    """Raises StartupError, a line for each thing that is named and cannot exist."""
    types = _HOSTED.union(*((*(one.native_tools or ()), *one.ignore_tools) for one in settings.upstreams))
    faults: list[str] = []
    for tenant in settings.tenant:
        faults += _unknown_tools(f"tenant {tenant.id!r}", tenant.tools or (), types, toolbox)
    for name, agent in agents.items():
        who = f"agent {name!r}"
        named = [model for model in (agent.model, *(agent.fallbacks or ())) if model is not None]
        faults += [
            f"{who} names the model {model!r}, which no upstream has"
            for model in named
            if not router.may_exist(model)
        ]
        faults += _unknown_tools(who, agent.tools or (), types, toolbox)
        try:
            context.check(agent.context or (), who)
        except StartupError as error:
            faults.append(error.message)
    if faults:
        raise StartupError("\n".join(faults))


def _unknown_tools(who: str, tools: Iterable[str], types: frozenset[str], toolbox: Toolbox) -> list[str]:
    return [
        f"{who} lists the tool {tool!r}, which is no tool and no MCP server of this configuration; a type of tool "
        "that an upstream executes has to stand in its native_tools"
        for tool in tools
        if not toolbox.knows(tool) and tool not in types
    ]
