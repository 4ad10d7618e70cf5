"""Who wants to know when a credential counts no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Literal

import structlog

from antiphon.core.principal import Principal
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

OnOver = Callable[[Literal["expired", "revoked"]], None]

_LONGEST_S = 24 * 3600.0
"""A timer is set for no longer: clocks of the world are set, that of the loop is not."""


class Watches:
    """One per socket or stream. Each is told once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_credential: dict[str, set[_Watch]] = {}

    def __len__(self) -> int:
        return sum(len(watches) for watches in self._by_credential.values())

    def add(self, principal: Principal, on_over: OnOver) -> Callable[[], None]:
        """Gives what ends the watch."""
        watch = _Watch(principal, on_over)
        self._by_credential.setdefault(principal.credential, set()).add(watch)

        def end() -> None:
            if watch.timer is not None:
                watch.timer.cancel()
            watches = self._by_credential.get(principal.credential, set())
            watches.discard(watch)
            if not watches:
                self._by_credential.pop(principal.credential, None)

        if principal.expires_at is not None:
            self._wait(watch, principal.expires_at, end)
        return end

    def revoked(self, credentials: Collection[str]) -> None:
        """These count no more."""
        for credential in credentials:
            for watch in self._by_credential.pop(credential, set()):
                if watch.timer is not None:
                    watch.timer.cancel()
                _tell(watch.on_over, "revoked")

    def look_again(self, is_revoked: Callable[[Principal], bool]) -> None:
        """Some credentials may count no more: whose, the function says."""
        watches = [watch for watches in self._by_credential.values() for watch in watches]
        self.revoked({watch.principal.credential for watch in watches if is_revoked(watch.principal)})

    def _wait(self, watch: _Watch, until: float, end: Callable[[], None]) -> None:
        left_s = until - self._clock.now()

        def look() -> None:
            if self._clock.now() < until:
                self._wait(watch, until, end)
                return
            end()
            _tell(watch.on_over, "expired")

        watch.timer = asyncio.get_running_loop().call_later(min(max(left_s, 0.0), _LONGEST_S), look)


class _Watch:
    __slots__ = ("on_over", "principal", "timer")

    def __init__(self, principal: Principal, on_over: OnOver) -> None:
        self.principal = principal
        self.on_over = on_over
        self.timer: asyncio.TimerHandle | None = None


def _tell(on_over: OnOver, why: Literal["expired", "revoked"]) -> None:
    """One that fails keeps no other from being told."""
    try:
        on_over(why)
    except Exception:
        log.exception("credential_end_not_handled")
