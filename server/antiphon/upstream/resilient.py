"""An upstream that is called again when that cannot be noticed, and left alone when it keeps failing."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog

from antiphon.core.breaker import CircuitBreaker
from antiphon.core.durations import Durations
from antiphon.core.retry import RetryPolicy
from antiphon.errors import UpstreamError
from antiphon.ports import Clock, ModelCall, Upstream
from antiphon.settings.upstream import BreakerSettings, RetrySettings
from antiphon.upstream.output import OpenAnswer, failure_in, has_ended, open_answer
from antiphon.upstream.state import UpstreamState

log = structlog.get_logger(__name__)


class ResilientUpstream:
    """Implements the `Upstream` port around another one, with retries before output and a circuit breaker.

    Not with PyPI `tenacity`: each of its calls leaves a cycle that holds the answer until the collector comes.
    """

    def __init__(
        self,
        upstream: Upstream,
        retry: RetrySettings,
        breaker: BreakerSettings,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = upstream.name
        self.tools = upstream.tools
        self._upstream = upstream
        self._policy = RetryPolicy(
            retry.max_attempts, retry.base_ms / 1000, retry.max_wait_s, retry.retry_after_max_s
        )
        self._breaker = CircuitBreaker(breaker.failures, breaker.open_s)
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._calls = self._retries = self._failures = self._opened = 0
        self._first_output, self._whole = Durations(), Durations()

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. The first batch holds output: what an upstream says before is held back until then.

        Raises UpstreamError, `upstream_unavailable` without asking while the breaker is open.
        """
        begun = self._clock.monotonic()
        answer, permit = await self._open(call)
        last, last_at = answer.first, self._clock.monotonic()
        try:
            yield last
            async for batch in answer.rest:
                last, last_at = batch, self._clock.monotonic()
                yield batch
            self._ended(permit, last, call, last_at - begun)
        except UpstreamError as error:
            self._judge(permit, error)
            raise
        except BaseException:  # closed, cancelled
            if has_ended(last):
                self._ended(permit, last, call, last_at - begun)
            self._breaker.released(permit)
            raise
        finally:
            await answer.rest.aclose()

    async def models(self) -> Sequence[str]:
        """See the port. Neither repeated nor counted: who asks for a list asks again anyway."""
        return await self._upstream.models()

    async def input_tokens(self, call: ModelCall) -> int | None:
        """See the port. Neither repeated nor counted, as nothing waits for it."""
        return await self._upstream.input_tokens(call)

    async def aclose(self) -> None:
        """Release connections."""
        await self._upstream.aclose()

    def state(self) -> UpstreamState:
        """How it does now."""
        breaker, now = self._breaker, self._clock.monotonic()
        until = breaker.opened_until
        opened_until = None if until is None else self._clock.now() + until - now
        return UpstreamState(
            name=self.name,
            breaker=breaker.state(now),
            failures=breaker.failures,
            opened_until=opened_until,
            retries=self._retries,
            calls=self._calls,
            failed=self._failures,
            opened=self._opened,
            first_output=self._first_output,
            whole=self._whole,
        )

    async def _open(self, call: ModelCall) -> tuple[OpenAnswer, int]:
        attempt = 1
        while True:
            try:
                return await self._attempt(call)
            except UpstreamError as error:
                wait_s = self._wait_s(attempt, error)
                if wait_s is None:
                    raise
                log.warning(
                    "upstream_retry",
                    upstream=self.name,
                    response_id=call.run_id,
                    attempt=attempt,
                    wait_ms=round(wait_s * 1000),
                    code=error.code,
                )
            attempt += 1
            self._retries += 1
            await self._sleep(wait_s)

    async def _attempt(self, call: ModelCall) -> tuple[OpenAnswer, int]:
        permit = self._breaker.admit(self._clock.monotonic())
        if permit is None:
            raise self._left_alone()
        self._calls += 1
        begun = self._clock.monotonic()
        try:
            answer = await open_answer(self._upstream, call)
        except UpstreamError as error:
            self._judge(permit, error)
            raise
        except BaseException:
            self._breaker.released(permit)
            raise
        self._first_output.add(self._clock.monotonic() - begun)
        # Users must not wait for the whole of a long answer until the breaker closes.
        self._answered(permit)
        return answer, permit

    def _wait_s(self, attempt: int, error: UpstreamError) -> float | None:
        if self._breaker.state(self._clock.monotonic()) != "closed":
            return None
        return self._policy.wait_s(attempt, error, now=self._clock.now(), chance=self._chance())

    def _ended(self, permit: int, last: Sequence[bytes], call: ModelCall, took_s: float) -> None:
        """The stream is over; `last` is its last batch, and `took_s` the time until it came."""
        self._whole.add(took_s)
        if not has_ended(last):
            self._failed(permit, "upstream_error")
        elif (error := failure_in(last, self.name, call)) is not None:
            self._judge(permit, error)
        else:
            self._breaker.succeeded(permit)

    def _judge(self, permit: int, error: UpstreamError) -> None:
        if error.is_upstreams_fault:
            self._failed(permit, error.code)
        else:
            self._answered(permit)

    def _answered(self, permit: int) -> None:
        was_closed = self._breaker.opened_until is None
        self._breaker.answered(permit)
        if not was_closed and self._breaker.opened_until is None:
            log.info("upstream_breaker_closed", upstream=self.name)

    def _failed(self, permit: int, code: str) -> None:
        self._failures += 1
        before = self._breaker.opened_until
        now = self._clock.monotonic()
        self._breaker.failed(permit, now)
        if self._breaker.opened_until != before:
            self._opened += 1
            open_s = round(self._breaker.retry_after_s(now), 3)
            log.warning("upstream_breaker_opened", upstream=self.name, open_s=open_s, code=code)

    def _left_alone(self) -> UpstreamError:
        wait_s = math.ceil(self._breaker.retry_after_s(self._clock.monotonic()))
        return UpstreamError(
            f"Upstream {self.name!r} failed several times in a row and is not asked now; try again in {wait_s} s.",
            code="upstream_unavailable",
            headers={"retry-after": str(wait_s)},
            step="breaker",
        )
