"""Keys made by `antiphon keys`: read from the store once, remembered, forgotten when they are revoked."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from antiphon.bus.tasks import end_tasks
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, Unauthorized
from antiphon.governance.identity.failed_logins import FailedLogins
from antiphon.governance.identity.rereading import read_forever
from antiphon.governance.identity.static_keys import TOP_TIER
from antiphon.ports import Clock
from antiphon.settings.identity import IdentitySettings
from antiphon.store.api_keys import ApiKey

T = TypeVar("T")

KEY_PREFIX = "ak_"
_KNOWN = 100_000
_UNKNOWN = 10_000
"""How many digests of keys are remembered that are there, and that are not."""
_LOOKUPS_AT_ONCE = 4
_LOOKUPS_OF_ONE_ADDRESS = 2
"""Keys that somebody makes up must not keep everybody else from reading the store."""
_CLOCKS_DIFFER_S = 3_600.0
"""Revocations are dated by the machine on which they were made."""


class KeyRows(Protocol):
    """The stored keys. Every method raises StorageError."""

    async def find(self, sha256: str) -> ApiKey | None: ...
    async def revoked_since(self, at: float) -> frozenset[str]: ...
    async def any_active(self, now: float) -> bool: ...


@dataclass(slots=True)
class _Lane:
    """Look-ups for one client address. users: those that look or wait for it."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKUPS_OF_ONE_ADDRESS))
    users: int = 0


class StoredKeys:
    """on_revoked: told the ids of keys that were found to be revoked since they were last looked at."""

    def __init__(
        self,
        rows: KeyRows,
        clock: Clock,
        tiers: Mapping[str, str],
        settings: IdentitySettings,
        failed: FailedLogins,
    ) -> None:
        self._rows = rows
        self._failed = failed
        self._clock = clock
        self._tiers = tiers
        self._reread_s = settings.reread_s
        self._stale_s = settings.stale_s
        self._known: OrderedDict[str, ApiKey] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()
        self._revoked: frozenset[str] = frozenset()
        self._read_at = clock.monotonic()
        self._read_at_unix_s = clock.now()
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)
        self._lanes: dict[str, _Lane] = {}
        self._rereading: asyncio.Task[None] | None = None
        self.on_revoked: Callable[[frozenset[str]], None] = lambda ids: None

    async def any_active(self) -> bool:
        """Whether some key opens the door now. Raises StorageError."""
        return await self._rows.any_active(self._clock.now())

    async def start(self) -> None:
        """Begin to hear of revocations. Raises StorageError."""
        await self.read()
        self._rereading = asyncio.create_task(
            read_forever(self.read, self._reread_s, "revoked_keys_not_read"), name="revoked keys"
        )

    async def aclose(self) -> None:
        await end_tasks([self._rereading])

    async def find(self, sha256: str, address: str = "") -> Principal | None:
        """Whose key it is, also of one that counts no more; None if there is none. address: of who shows it.

        Raises RequestError `rate_limited`, StorageError.
        """
        key = self._known.get(sha256)
        if key is None:
            key = await self._look_up(sha256, address)
        else:
            self._known.move_to_end(sha256)
        return self._principal(key) if key is not None else None

    def check(self, credential: str) -> None:
        """Raises Unauthorized for the id of a revoked key; `identity_unavailable` if that cannot be known."""
        if credential in self._revoked:
            raise Unauthorized("This key was revoked.", headers={"www-authenticate": "Bearer"})
        if self._clock.monotonic() - self._read_at > self._stale_s:
            raise AntiphonError(
                "The store has not said for a while which keys were revoked; try again in a moment.",
                code="identity_unavailable",
                headers={"retry-after": "2"},
            )

    def is_revoked(self, credential: str) -> bool:
        """Whether it is known to have been taken back."""
        return credential in self._revoked

    async def read(self) -> None:
        """Take over what was revoked since this last worked. Raises StorageError."""
        begun, now = self._clock.monotonic(), self._clock.now()
        found = await self._rows.revoked_since(min(self._read_at_unix_s, now) - _CLOCKS_DIFFER_S)
        self._read_at, self._read_at_unix_s = begun, now
        self._found_revoked(found)

    def _found_revoked(self, found: frozenset[str]) -> None:
        news = found - self._revoked
        if news:
            self._revoked |= news
            self.on_revoked(news)

    async def _look_up(self, sha256: str, address: str) -> ApiKey | None:
        until = self._unknown.get(sha256)
        if until is not None and self._clock.monotonic() < until:
            return None
        async with self._lane(address):
            self._failed.check(address)  # others may have failed meanwhile
            async with self._lookups:
                key = self._known.get(sha256) or await self._rows.find(sha256)
        if key is None:
            _remember(self._unknown, sha256, self._clock.monotonic() + self._reread_s, _UNKNOWN)
            return None
        if key.revoked_at is not None:
            self._found_revoked(frozenset({key.id}))
        self._unknown.pop(sha256, None)
        _remember(self._known, sha256, key, _KNOWN)
        return key

    @contextlib.asynccontextmanager
    async def _lane(self, address: str) -> AsyncIterator[None]:
        lane = self._lanes.setdefault(address, _Lane())
        lane.users += 1
        try:
            async with lane.free:
                yield
        finally:
            lane.users -= 1
            if lane.users == 0:
                del self._lanes[address]

    def _principal(self, key: ApiKey) -> Principal:
        return Principal(
            f"user:{key.owner}" if key.owner else f"key:{key.name}",
            key.tenant,
            key.role,
            self._tiers.get(key.tenant, TOP_TIER),
            key.expires_at,
            key.id,
        )


def _remember(memory: OrderedDict[str, T], sha256: str, value: T, limit: int) -> None:
    memory[sha256] = value
    memory.move_to_end(sha256)
    if len(memory) > limit:
        memory.popitem(last=False)
