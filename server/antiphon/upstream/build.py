"""Builds the router with every upstream of the settings and the built-in models."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import StartupError
from antiphon.ports import Clock, Upstream
from antiphon.settings import Settings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.chat.upstream import ChatUpstream
from antiphon.upstream.demo import DemoUpstream
from antiphon.upstream.echo import EchoUpstream
from antiphon.upstream.http_upstream import HttpUpstream
from antiphon.upstream.resilient import ResilientUpstream
from antiphon.upstream.responses import ResponsesUpstream
from antiphon.upstream.router import UpstreamRouter
from antiphon.upstream.script import PACKAGE_SCRIPTS, PREFIX, ScriptUpstream


def build_upstreams(settings: Settings, clock: Clock, config: Path | None = None) -> UpstreamRouter:
    """config: the configuration file in use, beside which `scripts/` may stand.

    Raises StartupError for upstreams that cannot work.
    """
    folders = [PACKAGE_SCRIPTS, settings.data_path / "scripts"]
    if config is not None:
        folders.append(config.parent / "scripts")
    builtins: dict[str, Upstream] = {
        EchoUpstream.name: EchoUpstream(clock),
        DemoUpstream.name: DemoUpstream(clock),
        PREFIX: ScriptUpstream(clock, folders),
    }
    names = [upstream.name for upstream in settings.upstreams]
    for name in names:
        if names.count(name) > 1:
            raise StartupError(f"two upstreams are named {name!r}; names must differ")
    upstreams = [
        (one, ResilientUpstream(http_upstream(one, settings), settings.retry, settings.breaker, clock))
        for one in settings.upstreams
    ]
    return UpstreamRouter(
        upstreams,
        builtins,
        clock,
        settings.fallbacks,
        strict=settings.strict_fallbacks,
        default_model=settings.default_model,
    )


def http_upstream(one: UpstreamSettings, settings: Settings) -> HttpUpstream:
    """One upstream of the settings, as it is asked. Raises StartupError if it cannot work."""
    kind = ChatUpstream if one.api == "chat" else ResponsesUpstream
    return kind(one, settings.timeouts, settings.limits.upstream_event_bytes)
