"""Which tools a run may have at all: those of its tenant that are also its agent's."""

from __future__ import annotations

from dataclasses import dataclass

ANY_SERVER = "mcp"
"""In a list of tools: MCP servers that a request names by their URL."""


@dataclass(frozen=True, slots=True)
class ToolScope:
    """Names of tools of the server, and types of tools that an upstream executes itself. None does not restrict.

    An `http`, `python` or built-in tool goes by its name, an MCP server of the configuration by its label, one
    that a request names by its URL by `mcp`, any other tool by its type. What clients execute themselves is in no
    list.
    """

    tenant: frozenset[str] | None = None
    agent: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        return self.has_tenant(name) and self.has_agent(name)

    def has_tenant(self, name: str) -> bool:
        """Whether the tenant has the tool. One it has not is to it as one that does not exist."""
        return self.tenant is None or name in self.tenant

    def has_agent(self, name: str) -> bool:
        """Whether the agent may use the tool, if its tenant may."""
        return self.agent is None or name in self.agent


EVERYTHING = ToolScope()
