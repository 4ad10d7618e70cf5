"""Creates with a key: the same key and body is the same run (PROTOCOL "Idempotency")."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ports import Clock
from antiphon.store.responses import ResponseReader

KEEP_S = 86_400.0

_NOT_COMPARED = frozenset({"type", "stream", "stream_id", "stream_options", "background", "idempotency_key"})

Scope = tuple[str, str, str]
"""tenant, principal, key"""


def body_digest(raw: dict[str, Any]) -> bytes:
    """What makes two creates the same: their fields without those about delivery."""
    compared = {key: value for key, value in raw.items() if key not in _NOT_COMPARED}
    return hashlib.sha256(orjson.dumps(compared, option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class _Record:
    digest: bytes
    response_id: str
    expires_at: float


class IdempotencyKeys:
    """Records of this process, and behind them those of the store."""

    def __init__(self, reader: ResponseReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._records: dict[Scope, _Record] = {}
        self._locks: dict[Scope, asyncio.Lock] = {}

    def lock(self, principal: Principal, key: str) -> asyncio.Lock:
        """Held while a create with this key decides whether it is the first."""
        scope = (principal.tenant, principal.id, key)
        return self._locks.setdefault(scope, asyncio.Lock())

    async def find(self, principal: Principal, key: str, digest: bytes) -> str | None:
        """The run this create started before, None if it is new. Raises RequestError `idempotency_conflict`."""
        scope = (principal.tenant, principal.id, key)
        now = self._clock.now()
        record = self._records.get(scope)
        if record is not None and record.expires_at > now:
            known: tuple[bytes, str] | None = (record.digest, record.response_id)
        else:
            known = await self._reader.idempotent(*scope, now)
        if known is None:
            return None
        if known[0] != digest:
            raise RequestError(
                "This idempotency key was used with another body.",
                code="idempotency_conflict",
                param="idempotency_key",
                headers={"x-should-retry": "false"},
            )
        return known[1]

    def record(self, principal: Principal, key: str, digest: bytes, response_id: str) -> float:
        """Remember a create; gives when the record expires, in Unix seconds."""
        expires_at = self._clock.now() + KEEP_S
        self._records[(principal.tenant, principal.id, key)] = _Record(digest, response_id, expires_at)
        return expires_at

    def discard(self, principal: Principal, key: str) -> None:
        """The create was refused after all."""
        self._records.pop((principal.tenant, principal.id, key), None)

    def prune(self) -> None:
        """Let go of old records and of locks nobody holds."""
        now = self._clock.now()
        self._records = {scope: record for scope, record in self._records.items() if record.expires_at > now}
        self._locks = {scope: lock for scope, lock in self._locks.items() if lock.locked()}
