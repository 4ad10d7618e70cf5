"""Creates with a key: the same key and body is the same run (PROTOCOL "Idempotency")."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ports import Bus, Clock
from antiphon.store.responses import ResponseReader

KEEP_S = 86_400.0
_RECORDS = 100_000
"""Kept in memory. Older ones of stored runs are read from the store; unstored runs are long over by then."""

_NOT_COMPARED = frozenset({"type", "stream", "stream_id", "stream_options", "background", "idempotency_key"})

Scope = tuple[str, str, str]
"""tenant, principal, key"""


def body_digest(raw: dict[str, Any]) -> bytes:
    """What makes two creates the same: their fields without those about delivery."""
    compared = {key: value for key, value in raw.items() if key not in _NOT_COMPARED}
    options = compared.get("antiphon")
    if isinstance(options, dict) and "traceparent" in options:  # each attempt is a span of its own
        compared["antiphon"] = {key: value for key, value in options.items() if key != "traceparent"}
    return hashlib.sha256(orjson.dumps(compared, option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A create that may be the first with its key. replaces: the response of an older record whose log is gone."""

    digest: bytes
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    digest: bytes
    response_id: str
    expires_at: float


class IdempotencyKeys:
    """Records of this process, and behind them those of the store and, for unstored runs, of the bus."""

    def __init__(self, reader: ResponseReader, bus: Bus, clock: Clock) -> None:
        self._reader = reader
        self._bus = bus
        self._clock = clock
        self._records: OrderedDict[Scope, _Record] = OrderedDict()
        """The newest last."""
        self._scopes: dict[str, Scope] = {}
        """By response."""
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
        return _same(known, digest) if known is not None else None

    async def reserve(self, principal: Principal, key: str, digest: bytes, response_id: str) -> str | None:
        """Before a run that is not stored begins: the run that another node began with this key, None if this one
        is the first. Raises RequestError `idempotency_conflict`, BusError."""
        if self._bus.alone:
            return None
        there = await self._bus.put_if_absent(_shared(principal, key), digest + response_id.encode(), KEEP_S)
        return _same(_split(there), digest) if there is not None else None

    async def give_back(self, principal: Principal, key: str, digest: bytes, response_id: str) -> None:
        """What was reserved did not begin, or is gone. Raises BusError."""
        if not self._bus.alone:
            await self._bus.remove(_shared(principal, key), digest + response_id.encode())

    def record(self, principal: Principal, key: str, digest: bytes, response_id: str) -> float:
        """Remember a create; gives when the record expires, in Unix seconds."""
        expires_at = self._clock.now() + KEEP_S
        scope = (principal.tenant, principal.id, key)
        self._remove(scope)
        if len(self._records) >= _RECORDS:
            self._remove(next(iter(self._records)))
        self._records[scope] = _Record(digest, response_id, expires_at)
        self._scopes[response_id] = scope
        return expires_at

    def discard(self, principal: Principal, key: str) -> None:
        """The create was refused after all."""
        self._remove((principal.tenant, principal.id, key))

    def forget(self, response_id: str) -> None:
        """This response was deleted: its keys are free."""
        scope = self._scopes.get(response_id)
        if scope is not None:
            self._remove(scope)

    def prune(self) -> None:
        """Let go of old records and of locks nobody holds."""
        now = self._clock.now()
        for scope in [scope for scope, record in self._records.items() if record.expires_at <= now]:
            self._remove(scope)
        self._locks = {scope: lock for scope, lock in self._locks.items() if lock.locked()}

    def _remove(self, scope: Scope) -> None:
        record = self._records.pop(scope, None)
        if record is not None:
            self._scopes.pop(record.response_id, None)


def _same(known: tuple[bytes, str], digest: bytes) -> str:
    if known[0] != digest:
        raise RequestError(
            "This idempotency key was used with another body.",
            code="idempotency_conflict",
            param="idempotency_key",
            headers={"x-should-retry": "false"},
        )
    return known[1]


def _split(value: bytes) -> tuple[bytes, str]:
    size = hashlib.sha256().digest_size
    return value[:size], value[size:].decode()


def _shared(principal: Principal, key: str) -> str:
    scope = hashlib.sha256(orjson.dumps([principal.tenant, principal.id, key])).hexdigest()
    return f"antiphon:v1:key:{{{scope}}}"
