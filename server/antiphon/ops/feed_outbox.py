"""Lifecycle entries on their way to Redis: per tenant in their order, bounded as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

OUTBOX_BYTES = 64 * 1024 * 1024
"""A minute of a thousand entries a second; a suspended node, which is what Redis' absence makes of it, has few."""

BATCH_ENTRIES = 128
BATCH_BYTES = 256 * 1024
"""Of one tenant and one call: about a millisecond in which Redis does nothing else."""

OVERHEAD_BYTES = 300
"""What an entry takes in memory beside its text."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One entry. n: counts those of its run. last: its run has no other. body: its JSON from `event` on."""

    run_id: str
    fence: int
    n: int
    event: str
    last: bool
    body: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.body) + OVERHEAD_BYTES


class FeedOutbox:
    """What waits, and what was sent and not yet acknowledged; that is offered again, unchanged, until it is."""

    def __init__(self, limit_bytes: int = OUTBOX_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: dict[str, deque[Outgoing]] = {}
        self._sent: dict[str, Sequence[Outgoing]] = {}
        self._sizes_bytes: dict[str, int] = {}
        """Of the batches in `_sent`."""
        self.waiting_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting or self._sent)

    def __len__(self) -> int:
        return sum(map(len, (*self._waiting.values(), *self._sent.values())))

    def add(self, tenant: str, entry: Outgoing) -> dict[str, int]:
        """Put an entry last. Gives the tenants whose waiting entries were lost for it, with their number.

        When there is no room all that waits goes, of every tenant: half a history would look like a whole one.
        """
        lost: dict[str, int] = {}
        if self.waiting_bytes + entry.size_bytes > self._limit_bytes:
            lost = {tenant: len(queue) for tenant, queue in self._waiting.items()}
            self._waiting.clear()
            self.waiting_bytes = sum(self._sizes_bytes.values())
        self._waiting.setdefault(tenant, deque()).append(entry)
        self.waiting_bytes += entry.size_bytes
        return lost

    def batches(self) -> dict[str, Sequence[Outgoing]]:
        """Tenant -> what to send now: what was sent before in vain, else the next entries."""
        for tenant in [tenant for tenant in self._waiting if tenant not in self._sent]:
            queue, batch, size_bytes = self._waiting[tenant], list[Outgoing](), 0
            while queue and len(batch) < BATCH_ENTRIES and (not batch or size_bytes < BATCH_BYTES):
                batch.append(queue.popleft())
                size_bytes += batch[-1].size_bytes
            if not queue:
                del self._waiting[tenant]
            self._sent[tenant], self._sizes_bytes[tenant] = batch, size_bytes
        return dict(self._sent)

    def acknowledge(self, tenant: str) -> None:
        """The last batch of a tenant is in the feed."""
        del self._sent[tenant]
        self.waiting_bytes -= self._sizes_bytes.pop(tenant)
