"""Which upstream serves a model: built-in names, then configured lists, then what the upstreams say they have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.errors import RequestError, StartupError, UpstreamError
from antiphon.ports import Clock, Upstream
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.fallback import FallbackUpstream
from antiphon.upstream.resilient import ResilientUpstream
from antiphon.upstream.state import UpstreamState

_FRESH_S = 60.0
"""How long a list of /models is believed."""

_RETRY_S = 5.0
"""How long a failed /models is not asked again."""

_WAIT_S = 2.0
"""Longest wait of a caller for /models; a slower answer still counts for those who come later."""

_GIVE_UP_S = 20.0
"""After this an unanswered /models counts as failed."""

_RESERVED = "antiphon/"


class UpstreamRouter:
    """Resolves names of models.

    upstreams: in order of preference. builtins: by name; a name that ends with `:` is a prefix, and its upstream's
    `models()` says which names there are. fallbacks: by model, the models that may answer in its place. strict:
    nobody else may; if not, default_model is the last resort of every configured model.

    Raises StartupError for a fallback of or to a model that cannot exist.
    """

    def __init__(
        self,
        upstreams: Sequence[tuple[UpstreamSettings, Upstream]],
        builtins: Mapping[str, Upstream],
        clock: Clock,
        fallbacks: Mapping[str, Sequence[str]] | None = None,
        *,
        strict: bool = True,
        default_model: str | None = None,
    ) -> None:
        self._listings = [_Listing(settings, upstream, clock) for settings, upstream in upstreams]
        self._builtins = dict(builtins)
        self._created = int(clock.now())
        self._fallbacks = dict(fallbacks or {})
        self._strict = strict
        self._default = default_model
        for model in [name for first, others in self._fallbacks.items() for name in (first, *others)]:
            if not self.may_exist(model):
                raise StartupError(f"fallbacks name the model {model!r}, which no upstream has")

    async def resolve(
        self,
        model: str,
        allowed: Callable[[str], bool] = lambda model: True,
        *,
        fallbacks: Sequence[str] | None = None,
        strict: bool | None = None,
    ) -> tuple[Upstream, str, UpstreamSettings | None]:
        """The upstream, the name it knows the model by, and its settings (None for built-in models).

        allowed: which other models may take its place, by the names clients use. fallbacks, strict: as in `chain`.
        Raises RequestError `model_not_found`.
        """
        upstream, name, settings = await self._find(model)
        chain = self.chain(model, fallbacks=fallbacks, strict=strict, allowed=allowed)
        others = [other for other in chain[1:] if allowed(other)]
        if others or settings is not None:
            is_strict = self._is_strict(strict)
            upstream = FallbackUpstream(model, upstream, others, self._find_by_name, strict=is_strict)
        return upstream, name, settings

    def chain(
        self,
        model: str,
        *,
        fallbacks: Sequence[str] | None = None,
        strict: bool | None = None,
        allowed: Callable[[str], bool] = lambda model: True,
    ) -> list[str]:
        """The model, and those that may answer in its place, in order.

        fallbacks: those named for this run; None: the configured ones of the model. strict: nobody else; None: as
        the server is set. If not, its default model comes last, where `allowed` permits it; never one of the
        built-in models, which answer only where they are named.
        """
        named = self._fallbacks.get(model, ()) if fallbacks is None else fallbacks
        names = [model, *named]
        last = self._default
        if not self._is_strict(strict) and last is not None and not last.startswith(_RESERVED) and allowed(last):
            names.append(last)
        return list(dict.fromkeys(names))

    def _is_strict(self, strict: bool | None) -> bool:
        return self._strict if strict is None else strict

    def states(self) -> list[UpstreamState]:
        """How each configured upstream does."""
        upstreams = (listing.upstream for listing in self._listings)
        return [upstream.state() for upstream in upstreams if isinstance(upstream, ResilientUpstream)]

    async def _find_by_name(self, model: str) -> tuple[Upstream, str]:
        upstream, name, _ = await self._find(model)
        return upstream, name

    def may_exist(self, model: str) -> bool:
        """Whether some upstream may have the model: False for a name that nobody can ever answer to."""
        if model.startswith(_RESERVED):
            stem, colon, _ = model.partition(":")
            return stem + colon in self._builtins
        return any(not listing.is_fixed or model in (listing.names or ()) for listing in self._listings)

    async def _find(self, model: str) -> tuple[Upstream, str, UpstreamSettings | None]:
        if model.startswith(_RESERVED):
            upstream = await self._builtin(model)
            if upstream is not None:
                return upstream, model, None
        else:
            listing = await self._listed(model)
            if listing is not None:
                return listing.upstream, model, listing.settings
        raise no_model(model)

    async def models(self) -> list[dict[str, Any]]:
        """Every model that is known, as `GET /v1/models` shows it; the first of equal names wins."""
        names: dict[str, str] = {}
        for key, upstream in self._builtins.items():
            for name in await upstream.models() if key.endswith(":") else [key]:
                names[name] = "antiphon"
        await self._refresh(self._listings)
        for listing in self._listings:
            for name in listing.names or ():
                names.setdefault(name, listing.settings.name)
        return [
            {"id": name, "object": "model", "created": self._created, "owned_by": owner}
            for name, owner in names.items()
        ]

    async def aclose(self) -> None:
        """Close every upstream."""
        for listing in self._listings:
            await listing.aclose()
        for upstream in self._builtins.values():
            await upstream.aclose()

    async def _builtin(self, model: str) -> Upstream | None:
        stem, colon, _ = model.partition(":")
        upstream = self._builtins.get(stem + colon)
        if upstream is not None and colon and model not in await upstream.models():
            return None
        return upstream

    async def _listed(self, model: str) -> _Listing | None:
        fixed = [listing for listing in self._listings if listing.is_fixed]
        asked = [listing for listing in self._listings if not listing.is_fixed]
        found = _first(fixed, model) or _first(asked, model)
        if found is None and asked:
            await self._refresh(asked)
            found = _first(asked, model)
        if found is not None:
            return found
        # An upstream that cannot list its models may well have this one; if there are several, nobody can tell.
        unknown = [listing for listing in asked if not listing.names]
        return unknown[0] if len(unknown) == 1 else None

    async def _refresh(self, listings: Sequence[_Listing]) -> None:
        tasks = [task for task in (listing.refresh() for listing in listings) if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_WAIT_S)


class _Listing:
    """The models of one upstream. names: None until they are known; the last good ones if asking fails."""

    def __init__(self, settings: UpstreamSettings, upstream: Upstream, clock: Clock) -> None:
        self.settings = settings
        self.upstream = upstream
        self.names: frozenset[str] | None = None
        self.is_fixed = settings.models is not None
        if settings.models is not None:
            self.names = frozenset(settings.models)
        self._clock = clock
        self._ask_again_at = float("-inf")
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def refresh(self) -> asyncio.Task[None] | None:
        """Ask if the list is old. Gives the question on its way, None if there is nothing to wait for."""
        if self.is_fixed:
            return None
        now = self._clock.monotonic()
        if self._asking is None and now >= self._ask_again_at:
            self._asked_at = now
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return self._asking if now - self._asked_at < _WAIT_S else None

    async def _ask(self) -> None:
        fresh_s = _RETRY_S
        try:
            async with asyncio.timeout(_GIVE_UP_S):
                self.names = frozenset(await self.upstream.models())
            fresh_s = _FRESH_S
        except (UpstreamError, TimeoutError):
            pass
        finally:
            self._ask_again_at = self._clock.monotonic() + fresh_s
            self._asking = None

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        await self.upstream.aclose()


def no_model(name: str) -> RequestError:
    """The refusal of a model nobody serves, or that is not open to the caller: the two are not told apart."""
    return RequestError(f"There is no model {name!r} here.", code="model_not_found", param="model")


def _first(listings: Sequence[_Listing], model: str) -> _Listing | None:
    return next((listing for listing in listings if model in (listing.names or ())), None)
