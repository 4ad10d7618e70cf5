"""The tools of MCP servers: their lists, kept for a while, and their calls."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from mcp_types import CallToolResult, TextContent
from mcp_types import Tool as McpTypesTool

from antiphon.errors import ToolError
from antiphon.ports import Clock, ToolContext, ToolList, ToolOutput, ToolSpec
from antiphon.tools.credentials import Credentials
from antiphon.tools.mcp_client import McpServer, reason_of
from antiphon.tools.schemas import check_schema

log = structlog.get_logger(__name__)

_MAX_LISTS = 1024
_MAX_NAME = 128
_CHECK_CPU_S = 5.0
"""For checking the schemas of one list, which takes about a millisecond each; the tools behind it are left out."""

Rule = Callable[[tuple[str, bool]], bool]
"""A question about one tool: its name, and whether it says that it only reads."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One entry of a server's list."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    read_only: bool


@dataclass(frozen=True, slots=True)
class ServerRules:
    """How the tools of one server are offered. believed: its word that a tool only reads is taken."""

    allowed: Rule
    needs_approval: Rule
    side_effects: bool
    believed: bool
    timeout_s: float
    max_output_bytes: int
    max_tools: int


class ListCache:
    """Tool lists by tenant, server and credential; a digest stands for the credential."""

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._lists: OrderedDict[tuple[str, str, str], tuple[float, tuple[ListedTool, ...]]] = OrderedDict()

    def get(self, key: tuple[str, str, str]) -> tuple[ListedTool, ...] | None:
        """key: tenant, server, digest of the credential."""
        expires_at, tools = self._lists.get(key, (0.0, ()))
        if expires_at > self._clock.monotonic():
            return tools
        self._lists.pop(key, None)
        return None

    def put(self, key: tuple[str, str, str], tools: tuple[ListedTool, ...]) -> None:
        """Keep a list, letting the oldest go where there are too many."""
        self._lists[key] = (self._clock.monotonic() + self._ttl_s, tools)
        self._lists.move_to_end(key)
        if len(self._lists) > _MAX_LISTS:
            self._lists.popitem(last=False)


class McpTool:
    """One tool of an MCP server."""

    def __init__(self, spec: ToolSpec, server: McpServer, credentials: Credentials) -> None:
        self.spec = spec
        self._server = server
        self._credentials = credentials

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Raises ToolError."""
        try:
            # A moment more than the caller waits, so that one clock decides.
            result = await self._server.call(self.spec.name, arguments, self.spec.timeout_s + 1)
        except ToolError as error:
            reason = self._credentials.scrub(error.message)
            raise ToolError(f"MCP server {self._server.label!r}: {reason}.") from error
        text = self._credentials.scrub(_text_of(result))
        if result.is_error:
            raise ToolError(text or "The tool reported an error without a text.")
        return ToolOutput(text)


async def open_list(
    server: McpServer,
    rules: ServerRules,
    credentials: Credentials,
    cache: ListCache,
    *,
    tenant: str,
    identity: str,
    timeout_s: float,
    listed: bool,
) -> ToolList:
    """The server's tools, from the cache or from itself. A failure is in the list's `error`; it never raises.

    identity: what tells this server from all others.
    """
    key = (tenant, identity, credentials.digest())
    tools = cache.get(key)
    try:
        if tools is None:
            async with asyncio.timeout(timeout_s):
                tools = _listed(await server.list_tools())
            cache.put(key, tools)
        chosen = [tool for tool in tools if rules.allowed((tool.name, tool.read_only))]
        if len(chosen) > rules.max_tools:
            raise ToolError(f"it has {len(chosen)} tools, more than {rules.max_tools}; choose with allowed_tools")
        # Not in the loop: checking a schema that was never seen takes about a millisecond.
        usable = await asyncio.to_thread(_usable, chosen)
    except TimeoutError:
        reason = f"it did not list its tools within {timeout_s:g} s"
    except ToolError as error:
        reason = credentials.scrub(error.message)
    except Exception as error:
        reason = reason_of(error)
    else:
        if len(usable) < len(chosen):
            log.warning("mcp_tools_left_out", server_label=server.label, count=len(chosen) - len(usable))
        return ToolList(
            server.label,
            tuple(McpTool(_spec(server.label, tool, rules), server, credentials) for tool in usable),
            listed=listed,
        )
    log.warning("mcp_list_failed", server_label=server.label, tenant=tenant)
    return ToolList(server.label, error=f"MCP server {server.label!r}: {reason}.", listed=listed)


def _spec(label: str, tool: ListedTool, rules: ServerRules) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        server_label=label,
        side_effects=rules.side_effects and not (rules.believed and tool.read_only),
        needs_approval=rules.needs_approval((tool.name, tool.read_only)),
        timeout_s=rules.timeout_s,
        max_output_bytes=rules.max_output_bytes,
    )


def _listed(tools: Sequence[McpTypesTool]) -> tuple[ListedTool, ...]:
    """What we need of a list; of two tools with one name the first."""
    found: dict[str, ListedTool] = {}
    for tool in tools:
        reads = tool.annotations is not None and tool.annotations.read_only_hint is True
        found.setdefault(tool.name, ListedTool(tool.name, tool.description or "", tool.input_schema, reads))
    return tuple(found.values())


def _usable(tools: Sequence[ListedTool]) -> list[ListedTool]:
    """Those with a name and a schema that can be worked with: a bad one does not spoil the rest."""
    usable = []
    until = time.thread_time() + _CHECK_CPU_S
    for tool in tools:
        if time.thread_time() > until:
            break
        try:
            check_schema(tool.parameters)
        except ValueError:
            continue
        if 0 < len(tool.name) <= _MAX_NAME:
            usable.append(tool)
    return usable


def _text_of(result: CallToolResult) -> str:
    """Texts joined, anything else as JSON; the structured content where there is no text."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    others = [
        part.model_dump_json(by_alias=True, exclude_none=True)
        for part in result.content
        if not isinstance(part, TextContent)
    ]
    if not texts and result.structured_content is not None:
        return "\n".join([orjson.dumps(result.structured_content).decode(), *others])
    return "\n".join([*texts, *others])
