"""What `antiphon doctor` asks of the tools: built as the server builds them, and reached, but never called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from antiphon.clock import SystemClock
from antiphon.errors import StartupError, ToolError
from antiphon.settings import Settings
from antiphon.settings.tools import ToolSettings
from antiphon.tools.build import build_toolbox, search_key

Check = Callable[[], Awaitable[str]]
"""Gives what was found; raises AntiphonError or OSError for what is wrong."""

_CONNECT_S = 10.0
_SHOWN = 8


def tool_checks(settings: Settings, config: Path | None) -> list[tuple[str, Check]]:
    """One for each tool of the configuration, and one for web search."""
    checks = [(f"tool {one.name}", _works(one, settings, config)) for one in settings.tool]
    return [*checks, ("web search", _has_key(settings))] if settings.web_search.configured else checks


def _works(one: ToolSettings, settings: Settings, config: Path | None) -> Check:
    async def check() -> str:
        toolbox = build_toolbox(settings.model_copy(update={"tool": (one,)}), SystemClock(), config)
        try:
            if one.kind == "http":
                return await reached(one.url or "")
            if one.kind == "python":
                return f"{one.entry or 'its entry point'} is there"
            tools = await toolbox.open([{"type": "mcp", "server_label": one.name}], "doctor", ())
            try:
                (listed,) = tools.lists
            finally:
                await tools.aclose()
        finally:
            await toolbox.aclose()
        if listed.error is not None:
            raise ToolError(listed.error)
        names = [tool.spec.name for tool in listed.tools]
        return f"{len(names)} tools: {', '.join(names[:_SHOWN])}"

    return check


async def reached(url: str) -> str:
    """Connect to the host of an address, or to the proxy that leads there. Raises OSError, ToolError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = (
        None if proxy_bypass(host) or host in ("localhost", "127.0.0.1", "::1") else getproxies().get(parts.scheme)
    )
    target = urlsplit(proxy) if proxy else parts
    host, port = target.hostname or "", target.port or (443 if target.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise ToolError(f"{host}:{port} did not answer in time.") from None
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return f"{host}:{port} is reached"


def _has_key(settings: Settings) -> Check:
    async def check() -> str:
        _, missing = search_key(settings.web_search)
        if missing is not None:
            raise StartupError(f"Web search has no key; {missing}.")
        return settings.web_search.provider

    return check
