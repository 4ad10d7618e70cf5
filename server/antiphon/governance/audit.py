"""The audit log: an action is done only together with its entry, and answered after both are durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import structlog

from antiphon.core.principal import Principal
from antiphon.ports import Clock, Ids
from antiphon.store import audit
from antiphon.store.audit import AuditEntry
from antiphon.store.writing import Work, Writer

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Audit:
    """Writes entries."""

    def __init__(self, writer: Writer, clock: Clock, ids: Ids) -> None:
        self._writer = writer
        self._clock = clock
        self._ids = ids

    async def record(
        self, principal: Principal, action: str, target: str, detail: Mapping[str, Any] | None = None
    ) -> None:
        """Returns when the entry is durable. Raises StorageError.

        action: noun and verb, `agent.put`. target: `agent:reviewer`, `tenant:acme`, `server`. detail: small facts,
        nothing secret and nothing anybody said.
        """
        await self._writer.submit(audit.add(self._entry(principal, action, target, detail)))

    async def record_with(
        self, principal: Principal, action: str, target: str, detail: Mapping[str, Any] | None, work: Work[T]
    ) -> T:
        """As `record`, and do the work in the same transaction; gives its result."""
        return await self._writer.submit(audit.add_with(self._entry(principal, action, target, detail), work))

    def _entry(
        self, principal: Principal, action: str, target: str, detail: Mapping[str, Any] | None
    ) -> AuditEntry:
        log.info("audit", by=principal.id, tenant=principal.tenant, action=action, target=target)
        who = (principal.tenant, principal.id)
        return AuditEntry(self._ids.mint("audit"), self._clock.now(), *who, action, target, dict(detail or {}))
