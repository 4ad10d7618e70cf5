"""What is said to the model about a run, before its instructions, and shown to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from antiphon.errors import HookError, RequestError, StartupError
from antiphon.governance.hooks.calling import Calls, Failure, place_of
from antiphon.hooks import ContextRequest

log = structlog.get_logger(__name__)


class Source(Protocol):
    """Where context comes from."""

    async def text(self, request: ContextRequest) -> str | None:
        """None: nothing to say."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One configured provider.

    default: asked where neither a run nor its agent names any. required: a run fails without it. timeout_s: of one
    answer. max_bytes: of its text in UTF-8.
    """

    name: str
    source: Source
    default: bool = True
    required: bool = False
    timeout_s: float = 2.0
    max_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the providers of one run said. text: None if none said anything."""

    text: str | None
    failures: tuple[Failure, ...]

    @property
    def failed_names(self) -> list[str]:
        """For the lifecycle event that makes a failure visible."""
        return [failure.name for failure in self.failures]


class ContextProviders:
    """All context providers of the server, in the order of the configuration."""

    def __init__(self, providers: Sequence[Provider], calls: Calls) -> None:
        self._providers: Mapping[str, Provider] = {provider.name: provider for provider in providers}
        self._defaults = tuple(provider.name for provider in providers if provider.default)
        self._calls = calls

    def check(self, names: Iterable[str], who: str) -> None:
        """who: what names them in the configuration. Raises StartupError for a provider that is not configured."""
        for name in names:
            if name not in self._providers:
                raise StartupError(f"{who} names the context provider {name!r}, which is not configured")

    def choose(self, requested: Sequence[str] | None, of_agent: Sequence[str] | None = None) -> tuple[str, ...]:
        """The providers of a run: those it names, even none; else those of its agent; else the default ones.

        Raises RequestError for one that is not configured: the wire can name providers, never bring them.
        """
        for name in requested or ():
            if name not in self._providers:
                raise RequestError(f"There is no context provider {name[:80]!r} here.", param="antiphon.context")
        names = requested if requested is not None else of_agent or self._defaults
        return tuple(dict.fromkeys(names))

    async def gather(self, names: Sequence[str], request: ContextRequest) -> Gathered:
        """Ask all at once; their texts stand in the order of the names, a blank line between them.

        Takes no longer than the longest timeout. Raises HookError if a required one failed.
        """
        providers = [self._providers[name] for name in names if name in self._providers]
        missing = [Failure(name, "error") for name in names if name not in self._providers]
        if missing:
            log.error("context_missing", providers=[one.name for one in missing], response_id=request.run_id)
        answers = await asyncio.gather(*(self._ask(provider, request) for provider in providers))
        failures = (*missing, *(answer for answer in answers if isinstance(answer, Failure)))
        if any(failure.required for failure in failures):
            raise HookError("A context provider that this run cannot do without failed.")
        texts = [answer for answer in answers if isinstance(answer, str)]
        return Gathered("\n\n".join(texts) or None, failures)

    async def _ask(self, one: Provider, request: ContextRequest) -> str | Failure | None:
        try:
            text = await self._calls.within(one.source.text(request), one.timeout_s, f"context {one.name}")
            if not isinstance(text, (str, type(None))):
                raise TypeError("a provider gives text or None")
            text = text.strip() if text is not None else ""
            size_bytes = len(text.encode())
        except TimeoutError:
            log.warning("context_timeout", provider=one.name, response_id=request.run_id, timeout_s=one.timeout_s)
            return Failure(one.name, "timeout", one.required)
        except Exception as error:
            log.error("context_failed", provider=one.name, response_id=request.run_id, error=place_of(error))
            return Failure(one.name, "error", one.required)
        if size_bytes > one.max_bytes:
            log.error("context_too_large", provider=one.name, response_id=request.run_id, size_bytes=size_bytes)
            return Failure(one.name, "too_large", one.required)
        return text or None


class PythonSource:
    """A provider in Python, which has `get_context_for_run`, `get_context`, or both."""

    def __init__(self, provider: Any) -> None:
        self._for_run = getattr(provider, "get_context_for_run", None)
        self._for_agent = getattr(provider, "get_context", None)

    async def text(self, request: ContextRequest) -> str | None:
        """The long form first; the short one if that gives nothing."""
        given: Any = None
        if self._for_run is not None:
            given = await self._for_run(
                tenant=request.tenant,
                principal=request.principal,
                agent=request.agent,
                conversation=request.conversation,
                run_id=request.run_id,
                source=request.source,
            )
        if not given and self._for_agent is not None:
            given = await self._for_agent(agent=request.agent, tenant=request.tenant)
        text: str | None = given
        return text
