"""Builds the extensions of the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import StartupError
from antiphon.governance.context import ContextProviders, Provider, PythonSource, Source
from antiphon.governance.context_files import FileSource
from antiphon.governance.hooks.dispatch import Dispatcher
from antiphon.governance.hooks.loading import (
    load_context,
    load_middleware,
    load_skill,
    subscribe_observer,
)
from antiphon.governance.middleware import EVENT, Middlewares
from antiphon.governance.observers import Observers
from antiphon.governance.skills import Skill, Skills
from antiphon.settings import Settings
from antiphon.settings.hooks import ContextSettings, SkillSettings

_FOLDER = Path("context")
_FOUND_SKILL_S = SkillSettings.model_fields["timeout_s"].get_default()


@dataclass(frozen=True, slots=True)
class OperatorHooks:
    """Every extension of the server."""

    middlewares: Middlewares
    context: ContextProviders
    observers: Observers
    skills: Skills
    dispatcher: Dispatcher

    async def aclose(self) -> None:
        """After the last run: let observers hear what they have not heard yet, for a bounded time."""
        await self.dispatcher.aclose()


def build_hooks(settings: Settings, http_context: Callable[[ContextSettings], Source]) -> OperatorHooks:
    """Load everything. http_context: makes providers of `kind = "http"`.

    Raises StartupError with a line for each extension that cannot work.
    """
    dispatcher = Dispatcher(settings.hooks)
    faults: list[str] = []
    for middleware in settings.middleware:
        with _noted(faults):
            handler = load_middleware(middleware)
            dispatcher.subscribe(EVENT, handler, name=middleware.name, timeout_s=middleware.timeout_s)
    for observer in settings.observer:
        with _noted(faults):
            subscribe_observer(observer, dispatcher)
    providers: list[Provider] = []
    for context in settings.context:
        with _noted(faults):
            providers.append(_provider(context, settings.data_path, http_context))
    skills: dict[str, Skill] = {}
    for skill in settings.skill:
        with _noted(faults):
            skills[skill.name] = Skill(skill.name, load_skill(skill), skill.timeout_s)
    if faults:
        raise StartupError("\n".join(faults))
    return OperatorHooks(
        middlewares=Middlewares(dispatcher, settings.hooks.middleware_chain_s),
        context=ContextProviders(providers, dispatcher.calls),
        observers=Observers(dispatcher),
        skills=Skills(skills, dispatcher, _FOUND_SKILL_S),
        dispatcher=dispatcher,
    )


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """All extensions are tried, so that the operator reads everything that is wrong at once."""
    try:
        yield
    except StartupError as error:
        faults.append(error.message)


def _provider(
    one: ContextSettings, data_path: Path, http_context: Callable[[ContextSettings], Source]
) -> Provider:
    source: Source
    if one.kind == "file":
        source = FileSource(data_path / (one.path or _FOLDER).expanduser(), one.max_bytes)
    elif one.kind == "http":
        source = http_context(one)
    else:
        source = PythonSource(load_context(one))
    return Provider(
        name=one.name,
        source=source,
        default=one.default,
        required=one.required,
        timeout_s=one.timeout_s,
        max_bytes=one.max_bytes,
    )
