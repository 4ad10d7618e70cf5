"""Which of the server's tools a run gets: configured ones, built-in ones, MCP servers that its request names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from antiphon.core.model_body import bare_url
from antiphon.core.tool_scope import EVERYTHING, ToolScope
from antiphon.errors import RequestError
from antiphon.ports import Clock, OpenTools, Tool, ToolList
from antiphon.settings.tools import OWN_LABEL, ToolSettings, ToolsSettings
from antiphon.tools.addresses import AddressGuard, Resolver
from antiphon.tools.credentials import Credentials
from antiphon.tools.declared import Approval, DeclaredServer, Selection, read_domains, read_server
from antiphon.tools.mcp_client import McpServer
from antiphon.tools.mcp_http import HttpEndpoint
from antiphon.tools.mcp_servers import ListCache, ServerRules, open_list
from antiphon.tools.web_search import WebSearch

WEB_SEARCH = "web_search"
"""The name of the search tool, for who offers it without being asked."""


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """An MCP server of the configuration, shared by all runs."""

    settings: ToolSettings
    server: McpServer
    credentials: Credentials


@dataclass(frozen=True, slots=True)
class OwnTool:
    """An `http`, `python` or built-in tool. always: offered without being asked for."""

    tool: Tool
    always: bool = False


class RunTools:
    """The tools of one run."""

    def __init__(
        self, lists: Sequence[ToolList], servers: Sequence[McpServer], closing: set[asyncio.Task[None]]
    ) -> None:
        self.lists = lists
        self._servers = servers
        self._closing = closing

    async def aclose(self) -> None:
        """End the sessions that the request's own servers were asked in, without waiting for their goodbye."""
        for server in self._servers:
            task = asyncio.create_task(server.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class ServerTools:
    """Every tool the server can execute.

    own: by name. servers: by label. search: None where web searches are left to the model server.
    client: shared by all that use HTTP; closed with this. resolve: how names of declared hosts become addresses.
    """

    def __init__(
        self,
        *,
        settings: ToolsSettings,
        own: Mapping[str, OwnTool],
        servers: Mapping[str, ConfiguredServer],
        search: WebSearch | None,
        client: httpx2.AsyncClient,
        clock: Clock,
        resolve: Resolver,
    ) -> None:
        self._settings = settings
        self._own = own
        self._servers = servers
        self._search = search
        self._client = client
        self._clock = clock
        self._resolve = resolve
        self._cache = ListCache(clock, settings.list_ttl_s)
        self._closing: set[asyncio.Task[None]] = set()

    def check(self, declared: Sequence[Mapping[str, Any]], scope: ToolScope = EVERYTHING) -> None:
        """Raises RequestError for a tool that can never work."""
        self._read(declared, scope)

    def knows(self, name: str) -> bool:
        return name in self._own or name in self._servers or (name == WEB_SEARCH and self._search is not None)

    @property
    def offers_unasked(self) -> bool:
        return any(own.always for own in self._own.values()) or any(
            one.settings.always for one in self._servers.values()
        )

    def owns_web_search(self) -> bool:
        return self._search is not None

    async def open(
        self,
        declared: Sequence[Mapping[str, Any]],
        tenant: str,
        always: Sequence[str],
        scope: ToolScope = EVERYTHING,
    ) -> OpenTools:
        """Raises RequestError where `check` does, and for nothing else."""
        wanted, search = self._read(declared, scope)
        named = frozenset(always)
        opened: list[McpServer] = []
        jobs = [self._open_declared(one, tenant, opened) for one in wanted if one.label != OWN_LABEL]
        labels = {one.label for one in wanted}
        for label, configured in self._servers.items():
            if label in scope and label not in labels and (configured.settings.always or label in named):
                jobs.append(
                    self._open_configured(
                        configured, DeclaredServer(label, Selection(), Approval()), tenant, False
                    )
                )
        try:
            lists = await asyncio.gather(*jobs)
        except BaseException:
            await RunTools((), opened, self._closing).aclose()
            raise
        return RunTools([*self._own_lists(wanted, named, search, scope), *lists], opened, self._closing)

    async def aclose(self) -> None:
        """End the MCP servers, those of the configuration and what is left of the runs' own."""
        await asyncio.gather(*(one.server.aclose() for one in self._servers.values()), *self._closing)
        await self._client.aclose()

    def _read(
        self, declared: Sequence[Mapping[str, Any]], scope: ToolScope
    ) -> tuple[list[DeclaredServer], WebSearch | None]:
        servers: dict[str, DeclaredServer] = {}
        search: WebSearch | None = None
        for tool in declared:
            if tool.get("type") != "mcp":
                if search is not None:
                    raise RequestError("web_search is given twice.", param="tools")
                if self._search is not None:
                    search = self._search.within(read_domains(tool))
                continue
            one = read_server(tool, self._settings)
            if one.label in servers:
                raise RequestError(f"Two MCP servers have the label {one.label!r}.", param="tools")
            self._check_label(one, scope)
            servers[one.label] = one
        return list(servers.values()), search

    def _check_label(self, one: DeclaredServer, scope: ToolScope) -> None:
        known = one.label == OWN_LABEL or (one.label in self._servers and scope.has_tenant(one.label))
        if one.url is None and not known:
            raise RequestError(f"There is no MCP server {one.label!r} here; give its server_url.", param="tools")
        if one.url is not None and known:
            raise RequestError(
                f"The label {one.label!r} belongs to a server of ours; choose another.", param="tools"
            )
        if one.label == OWN_LABEL and one.allowed.names is not None:
            unknown = sorted(one.allowed.names - {name for name in self._own if scope.has_tenant(name)})
            if unknown:
                raise RequestError(f"There is no tool {unknown[0]!r} under {OWN_LABEL!r}.", param="tools")

    def _own_lists(
        self,
        wanted: Sequence[DeclaredServer],
        named: frozenset[str],
        search: WebSearch | None,
        scope: ToolScope,
    ) -> list[ToolList]:
        lists: list[ToolList] = []
        taken: set[str] = set()
        own_tools = {name: own for name, own in self._own.items() if name in scope}
        for one in wanted:
            if one.label == OWN_LABEL:
                chosen = [own.tool for own in own_tools.values() if _key(own.tool) in one.allowed]
                taken = {tool.spec.name for tool in chosen}
                lists.append(ToolList(OWN_LABEL, [_with_approval(tool, one.approval) for tool in chosen]))
        unasked: list[Tool] = [
            own.tool for name, own in own_tools.items() if name not in taken and (own.always or name in named)
        ]
        if search is None and self._search is not None and WEB_SEARCH in named and WEB_SEARCH in scope:
            search = self._search
        if search is not None:
            unasked.append(search)
        if unasked:
            lists.append(ToolList(OWN_LABEL, unasked, listed=False))
        unknown = sorted(name for name in named if not self.knows(name))
        lists += [ToolList(name, error=f"There is no tool {name!r}.", listed=False) for name in unknown]
        return lists

    async def _open_declared(self, one: DeclaredServer, tenant: str, opened: list[McpServer]) -> ToolList:
        if one.url is None:
            return await self._open_configured(self._servers[one.label], one, tenant, True)
        settings = self._settings
        guard = AddressGuard(one.host, one.port, allow_private=settings.mcp_allow_private, resolve=self._resolve)
        endpoint = HttpEndpoint(one.url, one.credentials, settings.mcp_message_bytes, guard)
        server = McpServer(one.label, endpoint, self._clock)
        opened.append(server)
        rules = ServerRules(
            allowed=one.allowed.__contains__,
            needs_approval=lambda tool: one.approval.needed(tool, default=True),
            side_effects=True,
            believed=False,
            timeout_s=settings.timeout_s,
            max_output_bytes=settings.max_output_bytes,
            max_tools=settings.list_tools,
        )
        return await open_list(
            server,
            rules,
            one.credentials,
            self._cache,
            tenant=tenant,
            identity=f"url:{bare_url(one.url)}",
            timeout_s=settings.list_timeout_s,
            listed=True,
        )

    async def _open_configured(
        self, configured: ConfiguredServer, one: DeclaredServer, tenant: str, listed: bool
    ) -> ToolList:
        tool, bounds = configured.settings, self._settings
        names = None if tool.allowed_tools is None else frozenset(tool.allowed_tools)
        offered = Selection(names)
        # The request may ask for more approvals than the operator, never for fewer.
        strict = tool.require_approval == "always"
        rules = ServerRules(
            allowed=lambda key: key in offered and key in one.allowed,
            needs_approval=lambda key: strict or one.approval.needed(key, default=False),
            side_effects=tool.side_effects,
            believed=True,
            timeout_s=tool.timeout_s or bounds.timeout_s,
            max_output_bytes=tool.max_output_bytes or bounds.max_output_bytes,
            max_tools=bounds.list_tools,
        )
        return await open_list(
            configured.server,
            rules,
            configured.credentials,
            self._cache,
            tenant=tenant,
            identity=f"name:{tool.name}",
            timeout_s=bounds.list_timeout_s,
            listed=listed,
        )


def _key(tool: Tool) -> tuple[str, bool]:
    return tool.spec.name, not tool.spec.side_effects


class _Approved:
    """A tool whose calls this one request wants to approve."""

    def __init__(self, tool: Tool) -> None:
        self.spec = replace(tool.spec, needs_approval=True)
        self.call = tool.call


def _with_approval(tool: Tool, approval: Approval) -> Tool:
    if tool.spec.needs_approval or not approval.needed(_key(tool), default=False):
        return tool
    return _Approved(tool)
