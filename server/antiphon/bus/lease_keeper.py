"""Keeps this node's lease alive, and stops the node in time where that does not succeed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from antiphon.bus.tasks import end_tasks
from antiphon.core.lease import SAFE_SHARE, Lease, LeaseEffect, LeaseState
from antiphon.errors import BusError
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 3
RETRY_SHARE = 1 / 20
"""Of the lease, between two attempts at a renewal that failed: there are several before the node has to stop."""


class LeaseKeeper:
    """renew: renews the lease once and tells whether it was still there; raises BusError.

    judges_from: monotonic time from which this node may say of others that they are gone. After a trouble of the
    bus everybody's lease is missing, and everybody needs one lease to come back.
    """

    def __init__(self, clock: Clock, lease_s: float, renew: Callable[[], Awaitable[bool]]) -> None:
        self._clock = clock
        self._renew = renew
        self._lease = Lease(lease_s)
        self._on_suspended: Callable[[], None] = lambda: None
        self._on_resumed: Callable[[], Awaitable[None]] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._resuming: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hurry = asyncio.Event()
        self.healthy = False
        self.judges_from = 0.0

    @property
    def held(self) -> bool:
        now = self._clock.monotonic()
        if self._lease.holds(now):
            return True
        self._apply(self._lease.check(now))
        return False

    @property
    def left_s(self) -> float | None:
        """Seconds until the others take this node for gone unless it renews; None while it has no lease."""
        if self._lease.state is LeaseState.UNCONFIRMED:
            return None
        runs_out_at = self._lease.deadline + (1 - SAFE_SHARE) * self._lease.length_s
        return max(0.0, runs_out_at - self._clock.monotonic())

    @property
    def judges(self) -> bool:
        """Whether this node may say of others that they are gone."""
        return self.held and self._clock.monotonic() >= self.judges_from

    async def start(self, on_suspended: Callable[[], None], on_resumed: Callable[[], Awaitable[None]]) -> None:
        """Take the lease and go on renewing it. Raises BusError."""
        self._on_suspended, self._on_resumed = on_suspended, on_resumed
        sent_at = self._clock.monotonic()
        await self._renew()
        self._confirm(sent_at, was_lost=False)
        self._recover_first()
        self._tasks = [asyncio.create_task(self._renew_forever(), name="bus lease")]

    async def stop(self) -> None:
        """Renew no more, and hold no more. In the bus the lease is still there."""
        self._lease.give_up()
        self.healthy = False
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks([*self._tasks, self._resuming])

    def hurry(self) -> None:
        """Renew now: there is a sign that the lease is missing."""
        self._hurry.set()

    async def _renew_forever(self) -> None:
        length_s = self._lease.length_s
        while True:
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()
            sent_at = self._clock.monotonic()
            try:
                was_there = await self._renew()
            except BusError as error:
                if self.healthy:
                    log.warning("the lease was not renewed", error=str(error.__cause__ or error))
                self.healthy = False
            except Exception:
                log.exception("renewing the lease failed")
                self.healthy = False
            else:
                self._confirm(sent_at, was_lost=not was_there)
                # An answer that took longer than the lease confirms nothing: ask again at once.
                self.healthy = self._clock.monotonic() - sent_at < length_s

    def _wait_s(self) -> float:
        share = 1 / RENEWALS_PER_LEASE if self.healthy else RETRY_SHARE
        return self._lease.length_s * share * random.uniform(0.8, 1.0)

    def _confirm(self, sent_at: float, *, was_lost: bool) -> None:
        now = self._clock.monotonic()
        self._apply(self._lease.confirmed(sent_at, now, was_lost=was_lost))
        self.healthy = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(self._lease.deadline - now, 0), self._on_timer)

    def _on_timer(self) -> None:
        """Notice the loss even when nobody asks for `held`."""
        now = self._clock.monotonic()
        if now < self._lease.deadline:
            later_s = self._lease.deadline - now
            self._timer = asyncio.get_running_loop().call_later(later_s, self._on_timer)
        else:
            self._apply(self._lease.check(now))

    def _apply(self, effects: list[LeaseEffect]) -> None:
        for effect in effects:
            self._recover_first()
            if effect is LeaseEffect.SUSPEND:
                log.warning("the lease is not certain: this node holds still", lease_s=self._lease.length_s)
                try:
                    self._on_suspended()
                except Exception:
                    log.exception("on_suspended failed")
            elif self._resuming is None or self._resuming.done():
                self._resuming = asyncio.create_task(self._resume(), name="bus lease resuming")

    def _recover_first(self) -> None:
        self.judges_from = self._clock.monotonic() + self._lease.length_s

    async def _resume(self) -> None:
        """Until the node may act, or has lost the lease again (then its next confirmation begins anew)."""
        assert self._on_resumed is not None
        while self._lease.state is LeaseState.RESUMING:
            generation = self._lease.generation
            try:
                await self._on_resumed()
            except Exception as error:
                log.warning("what this node owned is not taken back yet", error=str(error))
                await asyncio.sleep(self._lease.length_s * RETRY_SHARE)
                continue
            if self._lease.resumed(generation, self._clock.monotonic()):
                self._recover_first()
                log.info("the lease is certain again: this node goes on")
