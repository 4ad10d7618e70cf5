"""What a request says in its `mcp` and `web_search` tools, checked without asking anybody."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from antiphon.errors import RequestError
from antiphon.settings.tools import ToolsSettings
from antiphon.tools.credentials import Credentials

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,8190}[\x21-\x7e])?")
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that a request may not set, beside those of MCP itself."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of a server's tools: those named, those that only read, or both. None does not restrict."""

    names: frozenset[str] | None = None
    read_only: bool | None = None

    def __contains__(self, tool: tuple[str, bool]) -> bool:
        """tool: its name, and whether it only reads."""
        name, reads = tool
        return (self.names is None or name in self.names) and (self.read_only is None or reads == self.read_only)


@dataclass(frozen=True, slots=True)
class Approval:
    """Which calls a person must approve. otherwise: of tools in neither selection; None: the default."""

    always: Selection | None = None
    never: Selection | None = None
    otherwise: bool | None = None

    def needed(self, tool: tuple[str, bool], default: bool) -> bool:
        """tool: its name, and whether it only reads."""
        if self.always is not None and tool in self.always:
            return True
        if self.never is not None and tool in self.never:
            return False
        return default if self.otherwise is None else self.otherwise


@dataclass(frozen=True, slots=True)
class DeclaredServer:
    """A `mcp` tool of a request. url: None where it names one of the configuration; its query may be a secret."""

    label: str
    allowed: Selection
    approval: Approval
    url: str | None = field(default=None, repr=False)
    host: str = ""
    port: int = 0
    credentials: Credentials = field(default_factory=Credentials)


def read_server(tool: Mapping[str, Any], settings: ToolsSettings) -> DeclaredServer:
    """Raises RequestError."""
    label = tool.get("server_label")
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise _refused("server_label must be 1-64 characters of A-Z a-z 0-9 _ -")
    for key in ("connector_id", "tunnel_id"):
        if tool.get(key) is not None:
            raise RequestError(
                f"MCP server {label!r}: {key} is not offered here; give a server_url.",
                code="unsupported_parameter",
                param="tools",
            )
    allowed = _selection(tool.get("allowed_tools"), label, "allowed_tools")
    approval = _approval(tool.get("require_approval"), label)
    url = tool.get("server_url")
    if url is None:
        if tool.get("authorization") is not None or tool.get("headers") is not None:
            raise _refused(f"MCP server {label!r}: authorization and headers need a server_url")
        return DeclaredServer(label, allowed, approval)
    if not isinstance(url, str):
        raise _refused(f"MCP server {label!r}: server_url must be a string")
    host, port = _place(url, label, settings)
    return DeclaredServer(
        label, allowed, approval, url, host, port, _credentials(tool, label, urlsplit(url).query)
    )


def read_domains(tool: Mapping[str, Any]) -> tuple[str, ...]:
    """`filters.allowed_domains` of a `web_search` tool. Raises RequestError."""
    filters = tool.get("filters")
    if filters is None:
        return ()
    domains = filters.get("allowed_domains") if isinstance(filters, Mapping) else filters
    if domains is None:
        return ()
    return tuple(sorted(_names(domains, "web_search: filters.allowed_domains")))


def _place(url: str, label: str, settings: ToolsSettings) -> tuple[str, int]:
    """Host and port, if a request may name them."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refused(f"MCP server {label!r}: server_url is not a URL") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and settings.mcp_allow_http):
        raise _refused(f"MCP server {label!r}: server_url must begin with https://")
    if not host or not url.isascii() or any(character <= " " or character in "\\\x7f" for character in url):
        raise _refused(f"MCP server {label!r}: server_url is not a URL")
    if parts.username is not None or parts.password is not None:
        raise _refused(f"MCP server {label!r}: give credentials in authorization or headers, not in server_url")
    if not _is_allowed(host, port, parts, settings.mcp_allowed_hosts):
        raise _refused(
            f"MCP server {label!r}: its host is not one this server may connect to "
            "(setting tools.mcp_allowed_hosts)"
        )
    return host, port or (443 if parts.scheme == "https" else 80)


def _is_allowed(host: str, port: int | None, parts: SplitResult, allowed: Sequence[str]) -> bool:
    """An entry without a port stands for the scheme's own port only."""
    if port == {"https": 443, "http": 80}[parts.scheme]:
        port = None
    for entry in allowed:
        try:
            wanted = urlsplit(f"//{entry.lower()}")
            if wanted.port != port:
                continue
        except ValueError:
            continue
        name = wanted.hostname or ""
        if name == host or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def _credentials(tool: Mapping[str, Any], label: str, query: str) -> Credentials:
    headers = tool.get("headers") or {}
    if not isinstance(headers, Mapping):
        raise _refused(f"MCP server {label!r}: headers must be an object")
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise _refused(f"MCP server {label!r}: a header is not valid HTTP")
        if name.lower() in _OURS or name.lower().startswith("mcp-"):
            raise _refused(f"MCP server {label!r}: the header {name!r} cannot be set")
        found[name.lower()] = value
    authorization = tool.get("authorization")
    if authorization is not None:
        if not isinstance(authorization, str) or not _HEADER_VALUE.fullmatch(authorization):
            raise _refused(f"MCP server {label!r}: authorization is not valid in a header")
        if "authorization" in found:
            raise _refused(f"MCP server {label!r}: authorization is given twice")
        # A token, as the API has it; somebody who writes the scheme too is understood.
        found["authorization"] = authorization if " " in authorization else f"Bearer {authorization}"
    return Credentials(found, query)


def _selection(value: Any, label: str, key: str) -> Selection:
    where = f"MCP server {label!r}: {key}"
    if value is None:
        return Selection()
    if isinstance(value, Mapping):
        names, read_only = value.get("tool_names"), value.get("read_only")
        if read_only is not None and not isinstance(read_only, bool):
            raise _refused(f"{where}.read_only must be true or false")
        return Selection(None if names is None else _names(names, f"{where}.tool_names"), read_only)
    return Selection(_names(value, where))


def _approval(value: Any, label: str) -> Approval:
    if value is None:
        return Approval()
    if value in ("always", "never"):
        return Approval(otherwise=value == "always")
    if not isinstance(value, Mapping) or not value.keys() <= {"always", "never"}:
        raise _refused(f"MCP server {label!r}: require_approval must be always, never, or an object of these two")
    chosen = {
        key: _selection(part, label, f"require_approval.{key}") for key, part in value.items() if part is not None
    }
    return Approval(chosen.get("always"), chosen.get("never"))


def _names(value: Any, where: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _refused(f"{where} must be a list of names")
    return frozenset(value)


def _refused(reason: str) -> RequestError:
    return RequestError(f"{reason}.", param="tools")
