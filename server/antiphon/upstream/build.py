"""Builds the router with every upstream of the settings and the built-in models."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import StartupError
from antiphon.ports import Clock, Upstream
from antiphon.settings import Settings
from antiphon.upstream.demo import DemoUpstream
from antiphon.upstream.echo import EchoUpstream
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
        (one, ResponsesUpstream(one, settings.timeouts, settings.limits.upstream_event_bytes))
        for one in settings.upstreams
    ]
    return UpstreamRouter(upstreams, builtins, clock)
