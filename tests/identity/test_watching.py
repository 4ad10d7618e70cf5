"""Being told when a credential counts no more."""

from __future__ import annotations

import asyncio
import time

from antiphon.clock import SystemClock
from antiphon.core.principal import Principal
from antiphon.governance.identity.watching import Watches

FOR_EVER = Principal("key:ci", "acme", "driver", credential="key_1")


async def test_a_watcher_is_told_once_of_a_revocation() -> None:
    watches = Watches(SystemClock())
    told: list[str] = []
    watches.add(FOR_EVER, told.append)
    ended = watches.add(FOR_EVER, told.append)
    ended()
    watches.revoked({"key_1", "key_2"})
    watches.revoked({"key_1"})
    assert told == ["revoked"] and len(watches) == 0


async def test_a_watcher_is_told_of_the_end_at_its_time_and_not_once_the_watch_is_over() -> None:
    watches, told = Watches(SystemClock()), asyncio.Queue[str]()
    soon = Principal("user:anna", "acme", "driver", expires_at=time.time() + 0.05, credential="jwt:1")
    watches.add(soon, told.put_nowait)
    watches.add(soon, lambda why: told.put_nowait("ended"))()
    async with asyncio.timeout(10):
        assert await told.get() == "expired"
    assert time.time() >= (soon.expires_at or 0) and told.empty() and len(watches) == 0


async def test_one_that_fails_keeps_no_other_from_being_told() -> None:
    watches = Watches(SystemClock())
    told: list[str] = []

    def fails(why: str) -> None:
        raise ValueError(why)

    for _ in range(3):
        watches.add(FOR_EVER, fails)
    watches.add(FOR_EVER, told.append)
    watches.revoked({"key_1"})
    assert told == ["revoked"]
