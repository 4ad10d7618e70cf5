"""Builds the toolbox of the settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx2
import orjson

from antiphon.errors import StartupError
from antiphon.ports import Clock, Tool, Toolbox, ToolSpec
from antiphon.settings import Settings
from antiphon.settings.tools import MIB, ToolSettings, ToolsSettings, WebSearchSettings
from antiphon.tools.addresses import Resolver, resolve_name
from antiphon.tools.builtin import CurrentTime
from antiphon.tools.credentials import Credentials, environment_of
from antiphon.tools.http_client import open_client
from antiphon.tools.http_tool import HttpTool
from antiphon.tools.mcp_client import Endpoint, McpServer
from antiphon.tools.mcp_http import HttpEndpoint
from antiphon.tools.mcp_stdio import StdioEndpoint
from antiphon.tools.python_tool import PythonTool, load_function, model_of
from antiphon.tools.schemas import check_schema
from antiphon.tools.toolbox import ConfiguredServer, OwnTool, ServerTools
from antiphon.tools.web_search import APIS, HttpSearchProvider, WebSearch

_SEARCH_BYTES = 4 * MIB


def build_toolbox(
    settings: Settings, clock: Clock, config: Path | None = None, *, resolve: Resolver = resolve_name
) -> Toolbox:
    """config: the configuration file in use, whose folder `parameters_file` starts from. Starts no MCP server.

    Raises StartupError with a line for each tool that cannot work.
    """
    folder = config.parent if config is not None else Path.cwd()
    client = open_client()
    built_in = CurrentTime(clock)
    own = {built_in.spec.name: OwnTool(built_in)}
    servers: dict[str, ConfiguredServer] = {}
    faults: list[str] = []
    for one in settings.tool:
        try:
            if one.name in (built_in.spec.name, "web_search"):
                raise StartupError(f"tool {one.name!r}: a built-in tool has this name; choose another")
            if one.kind == "mcp":
                servers[one.name] = _server(one, settings.tools, clock)
            else:
                own[one.name] = OwnTool(_own_tool(one, settings.tools, folder, client), one.always)
        except StartupError as error:
            faults.append(error.message)
    if faults:
        raise StartupError("\n".join(faults))
    return ServerTools(
        settings=settings.tools,
        own=own,
        servers=servers,
        search=_search(settings.web_search, client) if settings.web_search.configured else None,
        client=client,
        clock=clock,
        resolve=resolve,
    )


def _server(one: ToolSettings, bounds: ToolsSettings, clock: Clock) -> ConfiguredServer:
    credentials = Credentials.from_environment(f"tool {one.name!r}", one.headers_env)
    if one.command is not None:
        environment = environment_of(f"tool {one.name!r}", one.env_keys)
        endpoint: Endpoint = StdioEndpoint(one.name, one.command, one.args, environment, bounds.mcp_message_bytes)
    else:
        endpoint = HttpEndpoint(one.url or "", credentials, bounds.mcp_message_bytes)
    return ConfiguredServer(one, McpServer(one.name, endpoint, clock), credentials)


def _own_tool(one: ToolSettings, bounds: ToolsSettings, folder: Path, client: httpx2.AsyncClient) -> Tool:
    if one.kind == "http":
        credentials = Credentials.from_environment(f"tool {one.name!r}", one.headers_env)
        spec = _spec(one, bounds, one.description, _parameters(one, folder))
        return HttpTool(spec, one.url or "", credentials, client)
    function = load_function(one.name, one.entry)
    given = _parameters(one, folder)
    model = model_of(function) if given is None else None
    if given is None and model is not None:
        given = model.model_json_schema()
    first_lines = (getattr(function, "__doc__", None) or "").strip().partition("\n\n")[0]
    return PythonTool(_spec(one, bounds, one.description or first_lines, given), function, model)


def _parameters(one: ToolSettings, folder: Path) -> dict[str, Any] | None:
    if one.parameters_file is None:
        return one.parameters
    path = folder / one.parameters_file.expanduser()
    try:
        parsed = orjson.loads(path.read_bytes())
    except OSError as error:
        raise StartupError(f"tool {one.name!r}: {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise StartupError(f"tool {one.name!r}: {path} is not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise StartupError(f"tool {one.name!r}: {path} does not hold a JSON Schema object")
    return parsed


def _spec(
    one: ToolSettings, bounds: ToolsSettings, description: str, parameters: dict[str, Any] | None
) -> ToolSpec:
    if parameters is None:
        raise StartupError(
            f"tool {one.name!r} has no parameters: configure them, or annotate the function's first parameter "
            "with a pydantic model"
        )
    try:
        check_schema(parameters)
    except ValueError as error:
        raise StartupError(f"tool {one.name!r}: its parameters are no JSON Schema: {error}") from error
    return ToolSpec(
        name=one.name,
        description=" ".join(description.split()),
        parameters=parameters,
        side_effects=one.side_effects,
        needs_approval=one.require_approval == "always",
        timeout_s=one.timeout_s or bounds.timeout_s,
        max_output_bytes=one.max_output_bytes or bounds.max_output_bytes,
    )


def search_key(one: WebSearchSettings) -> tuple[str | None, str | None]:
    """The key of the search provider, and what to tell the operator if it is needed and not there."""
    key = one.key.get_secret_value() if one.key is not None else None
    missing = None
    if not key and one.key_env:
        key = os.environ.get(one.key_env)
        missing = None if key else f"set the environment variable {one.key_env}"
    elif not key and one.provider != "http":
        missing = "set key_env in [web_search] to the variable that holds it"
    return key, missing


def _search(one: WebSearchSettings, client: httpx2.AsyncClient) -> WebSearch:
    key, missing = search_key(one)
    provider = HttpSearchProvider(
        APIS[one.provider], client, url=one.url, key=key, missing=missing, max_bytes=_SEARCH_BYTES
    )
    return WebSearch(provider, one.results, one.timeout_s)
