"""A model whose place other models take when its upstream fails: in order, before any output, never silently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import orjson
import structlog

from antiphon.core.retry import is_worth_another_model
from antiphon.errors import RequestError, UpstreamError
from antiphon.ports import ModelCall, Upstream
from antiphon.upstream.output import OpenAnswer, open_answer
from antiphon_protocol.codes import CODES

log = structlog.get_logger(__name__)

Resolve = Callable[[str], Awaitable[tuple[Upstream, str]]]
"""From a model's name to its upstream and the name that one knows it by. Raises RequestError."""


class FallbackUpstream:
    """Implements the `Upstream` port for one model and its chain.

    model: the name clients use. first: its own upstream. others: the models to ask next, by the names clients use;
    they are resolved only when they are needed. strict: nobody else may answer, and a failure says so. One of
    these belongs to one run: where another model answered, the run's later calls go on with it, and `name` is that
    of its upstream.
    """

    def __init__(
        self, model: str, first: Upstream, others: Sequence[str], resolve: Resolve, *, strict: bool = True
    ) -> None:
        self.name = first.name
        self.tools = first.tools
        self._model = model
        self._first = first
        self._others = others
        self._resolve = resolve
        self._strict = strict
        self._chosen: tuple[Upstream, str] | None = None

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. Tells `call.on_degraded` when another model answers, right before its first output.

        Raises UpstreamError: of the first model, whatever the others said.
        """
        try:
            if self._chosen is not None:
                answer = await open_answer(self._chosen[0], _for_model(call, self._chosen[1]))
            else:
                answer = await open_answer(self._first, call)
        except UpstreamError as error:
            if not is_worth_another_model(error):
                raise
            if call.on_degraded is None or self._chosen is not None:
                raise self._refusal(error, []) from error
            answer = await self._open_another(call, error)
        try:
            yield answer.first
            async for batch in answer.rest:
                yield batch
        finally:
            await answer.rest.aclose()

    async def models(self) -> Sequence[str]:
        """Names of the models the first upstream serves. Raises UpstreamError."""
        return await self._first.models()

    async def input_tokens(self, call: ModelCall) -> int | None:
        """As the model that was asked for counts; others count otherwise. Raises UpstreamError."""
        return await self._first.input_tokens(call)

    async def aclose(self) -> None:
        """Nothing is held: the upstreams belong to the router."""

    async def _open_another(self, call: ModelCall, first: UpstreamError) -> OpenAnswer:
        tried: list[str] = []
        for name in self._others:
            try:
                upstream, model = await self._resolve(name)
                if call.caller_token is not None and upstream is not self._first:
                    continue  # the caller's credential is for the first upstream only, and ours would be charged
                answer = await open_answer(upstream, _for_model(call, model))
            except RequestError as unknown:
                tried.append(f"{name} ({unknown.code})")
            except UpstreamError as failure:
                tried.append(f"{name} ({failure.code if failure.code in CODES else failure.default_code})")
                if not is_worth_another_model(failure):
                    break
            else:
                self._chosen, self.name = (upstream, model), upstream.name
                self._degraded(call, name, first.code)
                return answer
        raise self._refusal(first, tried) from first

    def _degraded(self, call: ModelCall, name: str, code: str) -> None:
        log.warning(
            "upstream_degraded", response_id=call.run_id, fallback_from=self._model, fallback_to=name, code=code
        )
        assert call.on_degraded is not None
        call.on_degraded(self._model, name)

    def _refusal(self, first: UpstreamError, tried: Sequence[str]) -> UpstreamError:
        """The failure of a call that nobody could answer. tried: other models, with what became of each."""
        others = f" Other models were tried and failed too: {', '.join(tried)}." if tried else ""
        message = f"{first.message}{others}"
        if self._strict and first.code == "upstream_unavailable":
            step = "chain" if tried else first.step
            message = f"strict_fallbacks: {step}: {first.summary}{others}"
        elif not tried:
            return first
        return UpstreamError(
            message,
            code=first.code,
            status=first.status,
            http_status=first.http_status,
            headers=first.headers,
            is_upstreams_fault=first.is_upstreams_fault,
            summary=first.summary,
            step=first.step,
        )


def _for_model(call: ModelCall, model: str) -> ModelCall:
    return replace(call, model=model, body=orjson.dumps({**orjson.loads(call.body), "model": model}))
