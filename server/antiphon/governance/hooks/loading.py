"""From a table of the configuration to a callable of the operator's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from antiphon.entry_loading import load_entry
from antiphon.errors import StartupError
from antiphon.governance.hooks.dispatch import Dispatcher, is_async
from antiphon.governance.hooks.events import EVENTS, IllegalDispatch
from antiphon.hooks import Subscriptions
from antiphon.settings.hooks import (
    ContextSettings,
    MiddlewareSettings,
    ObserverSettings,
    SkillSettings,
)

MIDDLEWARE_GROUP = "antiphon.middleware"
CONTEXT_GROUP = "antiphon.context"
OBSERVERS_GROUP = "antiphon.observers"
SKILLS_GROUP = "antiphon.skills"


def load_middleware(one: MiddlewareSettings) -> Callable[..., Any]:
    """An async function of (request, next). Raises StartupError."""
    return _function("middleware", one, MIDDLEWARE_GROUP, "(request, next)")


def load_skill(one: SkillSettings) -> Callable[..., Any]:
    """An async function of (dispatch, context). Raises StartupError."""
    return _function("skill", one, SKILLS_GROUP, "(dispatch, context)")


def load_context(one: ContextSettings) -> Any:
    """An object with one of the two methods of a context provider. Raises StartupError."""
    loaded = load_entry("context", one.name, one.entry, CONTEXT_GROUP)
    provider = _made("context", one.name, loaded, one.options) if callable(loaded) else loaded
    methods = [getattr(provider, name, None) for name in ("get_context_for_run", "get_context")]
    there = [method for method in methods if method is not None]
    if not there or not all(map(is_async, there)):
        raise StartupError(
            f"context {one.name!r}: it needs an async method get_context_for_run, or get_context, or both"
        )
    return provider


def subscribe_observer(one: ObserverSettings, dispatcher: Dispatcher) -> None:
    """Let an observer say what it wants to hear. Raises StartupError."""
    observe = load_entry("observer", one.name, one.entry, OBSERVERS_GROUP)
    if not callable(observe) or is_async(observe):
        raise StartupError(f"observer {one.name!r}: it has to be a plain function of (subscriptions, **options)")
    _call("observer", one.name, observe, (_Subscriptions(one, dispatcher),), one.options)


class _Subscriptions(Subscriptions):
    """One observer's hand on the dispatcher."""

    def __init__(self, one: ObserverSettings, dispatcher: Dispatcher) -> None:
        self._one = one
        self._dispatcher = dispatcher

    def on(self, event: str, handler: Callable[[Any], Any]) -> None:
        one = self._one
        if event in EVENTS and EVENTS[event].mode == "waterfall":
            raise IllegalDispatch(f"{event} is for [[middleware]], whose order the configuration decides")
        self._dispatcher.subscribe(event, handler, name=one.name, timeout_s=one.timeout_s, required=one.required)


def _function(kind: str, one: MiddlewareSettings | SkillSettings, group: str, takes: str) -> Callable[..., Any]:
    """The configured function itself if it is async, else what it makes of the options."""
    loaded = load_entry(kind, one.name, one.entry, group)
    made = loaded
    if not callable(loaded):
        raise StartupError(f"{kind} {one.name!r}: it is no function and no class")
    if not inspect.iscoroutinefunction(loaded):
        made = _made(kind, one.name, loaded, one.options)
    elif one.options:
        raise StartupError(f"{kind} {one.name!r}: an async function takes no options; configure what makes it")
    try:
        inspect.signature(made).bind(None, None)
    except (TypeError, ValueError) as error:
        raise StartupError(f"{kind} {one.name!r}: it must take {takes}") from error
    if not is_async(made):
        raise StartupError(f"{kind} {one.name!r}: it has to be async")
    function: Callable[..., Any] = made
    return function


def _made(kind: str, name: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    return _call(kind, name, factory, (), options)


def _call(
    kind: str, name: str, function: Callable[..., Any], given: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """Raises StartupError with one line, whatever it raises."""
    try:
        return function(*given, **options)
    except (Exception, SystemExit) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise StartupError(f"{kind} {name!r} cannot be made with its options ({what})") from error
