"""What `antiphon doctor` asks of the extensions in Python: made as the server makes them, and asked nothing."""

from __future__ import annotations

from antiphon.cli.doctor_tools import Check, reached
from antiphon.governance.hooks.build import build_hooks
from antiphon.settings import Settings
from antiphon.settings.hooks import ContextSettings, MiddlewareSettings, ObserverSettings, SkillSettings
from antiphon.tools.http_context import HttpContexts

_NONE = {"middleware": (), "context": (), "observer": (), "skill": ()}


def hook_checks(settings: Settings) -> list[tuple[str, Check]]:
    """One for each extension of the configuration."""
    return [
        *((f"middleware {one.name}", _loads("middleware", one, settings)) for one in settings.middleware),
        *((f"context {one.name}", _loads("context", one, settings)) for one in settings.context),
        *((f"observer {one.name}", _loads("observer", one, settings)) for one in settings.observer),
        *((f"skill {one.name}", _loads("skill", one, settings)) for one in settings.skill),
    ]


def _loads(
    table: str, one: MiddlewareSettings | ContextSettings | ObserverSettings | SkillSettings, settings: Settings
) -> Check:
    async def check() -> str:
        contexts = HttpContexts()
        try:
            build_hooks(settings.model_copy(update={**_NONE, table: (one,)}), contexts)
        finally:
            await contexts.aclose()
        if isinstance(one, ContextSettings) and one.kind == "http":
            return await reached(one.url or "")
        if isinstance(one, ContextSettings) and one.kind == "file":
            return "its files are read for each run"
        return f"{one.entry or 'its entry point'} is there"

    return check
