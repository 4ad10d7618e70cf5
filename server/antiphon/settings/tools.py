"""The tables of the server's tools: `[[tool]]`, `[tools]` and `[web_search]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator

from antiphon.settings.table import Table

MIB = 1024 * 1024
OWN_LABEL = "antiphon"
"""The server label of `http`, `python` and built-in tools."""

_NAME = r"^[A-Za-z0-9_-]{1,64}$"
_ONLY = {
    "url": ("http", "mcp"),
    "headers_env": ("http", "mcp"),
    "description": ("http", "python"),
    "parameters": ("http", "python"),
    "parameters_file": ("http", "python"),
    "entry": ("python",),
    "command": ("mcp",),
    "args": ("mcp",),
    "env_keys": ("mcp",),
    "allowed_tools": ("mcp",),
}
"""Keys of `[[tool]]` that belong to some kinds only."""


class ToolSettings(Table):
    """A tool the server itself executes. An `mcp` tool is a whole MCP server, its name the `server_label`."""

    name: str = Field(pattern=_NAME)
    kind: Literal["http", "mcp", "python"]
    description: str = Field("", description="For the model. Of a python tool: by default its docstring.")
    url: str | None = Field(
        None, description="Of `http`: called with POST; of `mcp`: its streamable HTTP endpoint."
    )
    headers_env: dict[str, str] = Field(
        {},
        description="Header to the variable that holds its whole value: secrets stay out of the file.",
        examples=[
            '[[tool]]\nname = "lookup"\nkind = "http"\nurl = "https://tools.example.com/lookup"\n'
            'headers_env = { Authorization = "LOOKUP_AUTHORIZATION" }   # its value: Bearer ...\n'
            'parameters = { type = "object", properties = { id = { type = "integer" } }, required = ["id"] }'
        ],
    )
    parameters: dict[str, Any] | None = Field(None, description="JSON Schema of the arguments, as a table.")
    parameters_file: Path | None = Field(
        None, description="The same as a JSON file, seen from this file's folder."
    )
    entry: str | None = Field(
        None, description="`package.module:function`; absent: the entry point of this name in `antiphon.tools`."
    )
    command: str | None = Field(None, description="Program of an MCP server that speaks over stdio.")
    args: tuple[str, ...] = ()
    env_keys: tuple[str, ...] = Field((), description="Variables that the program gets, beside PATH and HOME.")
    allowed_tools: tuple[str, ...] | None = Field(None, description="Of an MCP server. Absent: all it has.")
    timeout_s: float | None = Field(None, gt=0, description="Of one call. Absent: that of `[tools]`.")
    max_output_bytes: int | None = Field(None, gt=0, description="Of one call. Absent: that of `[tools]`.")
    side_effects: bool = Field(True, description="A call must never be made twice. False allows it after a crash.")
    always: bool = Field(False, description="Offered to every run, also to one that does not ask for it.")
    require_approval: Literal["always", "never"] = Field(
        "never", description="`always`: a person is asked before each call, whatever the request says."
    )

    @model_validator(mode="after")
    def _check(self) -> ToolSettings:
        for key, kinds in _ONLY.items():
            if key in self.model_fields_set and self.kind not in kinds:
                raise ValueError(f"tool {self.name!r}: {key} does not belong to kind {self.kind!r}")
        wrong = self._wrong_server() if self.kind == "mcp" else self._wrong_function()
        if self.url and not self.url.startswith(("http://", "https://")):
            wrong = "the url must begin with http:// or https://"
        if wrong is not None:
            raise ValueError(f"tool {self.name!r}: {wrong}")
        return self

    def _wrong_server(self) -> str | None:
        if self.name == OWN_LABEL:
            return "this label belongs to the server's own tools; choose another name"
        if bool(self.url) == bool(self.command):
            return "an MCP server needs either a url or a command"
        if self.url and (self.args or self.env_keys):
            return "args and env_keys need a command"
        if self.command and self.headers_env:
            return "headers_env needs a url"
        return None

    def _wrong_function(self) -> str | None:
        if self.parameters is not None and self.parameters_file is not None:
            return "give parameters or parameters_file, not both"
        if self.kind == "http" and not self.url:
            return "an http tool needs a url"
        if self.kind == "http" and self.parameters is None and self.parameters_file is None:
            return "an http tool needs parameters or parameters_file"
        return None

    @property
    def variables(self) -> frozenset[str]:
        """Environment variables this tool reads."""
        return frozenset(self.headers_env.values()) | frozenset(self.env_keys)


class ToolsSettings(Table):
    """Bounds of the server's tools, and which MCP servers a request may name."""

    fan_out: int = Field(5, gt=0, description="Calls of one run executed at the same time.")
    timeout_s: float = Field(30, gt=0, description="Of one call, where the tool says nothing else.")
    max_output_bytes: int = Field(
        1 * MIB, gt=0, description="Largest output of one call; a larger one is an error."
    )
    list_ttl_s: float = Field(300, ge=0, description="How long the tool list of an MCP server is kept.")
    list_timeout_s: float = Field(10, gt=0, description="For connecting to an MCP server and reading its list.")
    list_tools: int = Field(
        256,
        gt=0,
        description="Most tools of one MCP server, after `allowed_tools`; of one that has more, none is offered "
        "and its list is an error.",
    )
    mcp_message_bytes: int = Field(8 * MIB, gt=0, description="Largest message read from an MCP server.")
    mcp_allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts a request may name in `server_url`: `mcp.example.com`, `*.example.com`; with `:port` "
        "if it is not the scheme's own. Empty: none.",
    )
    mcp_allow_http: bool = Field(False, description="Take `server_url` without TLS.")
    mcp_allow_private: bool = Field(
        False, description="Let the allowed hosts have addresses that are not on the public internet."
    )


class WebSearchSettings(Table):
    """Who answers `web_search`. Without it the tool is left to the model server.

    `http` posts `{"query": ..., "count": ...}` to `url`, the key as a Bearer token, and reads
    `{"results": [{"title", "url", "snippet"}]}`.
    """

    provider: Literal["http", "brave", "tavily"] = "http"
    url: str = Field("", description="Needed for `http`; the others know theirs.")
    key: SecretStr | None = Field(None, description="A secret; prefer `key_env`.")
    key_env: str | None = Field(None, description="Name of the variable that holds the key.")
    results: int = Field(5, gt=0, le=20)
    timeout_s: float = Field(10, gt=0)

    @model_validator(mode="after")
    def _check(self) -> WebSearchSettings:
        if self.provider == "http" and not self.url and self.model_fields_set:
            raise ValueError("web_search: the provider `http` needs a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("web_search: the url must begin with http:// or https://")
        return self

    @property
    def configured(self) -> bool:
        return bool(self.url) or self.provider != "http"
