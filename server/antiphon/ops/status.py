"""The status of the whole installation: every node says its own, and the one that is asked puts it together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import structlog

from antiphon.core.node_status import NodeReport, merge_upstreams, silent_row, totals
from antiphon.errors import AntiphonError, BusError
from antiphon.ports import Bus, Clock

log = structlog.get_logger(__name__)

STATUS = "node.status"
"""Kind of the message that asks a node for its report."""

ANSWER_WITHIN_S = 1.0
"""A node that takes longer is shown as silent: the dashboard asks every two seconds."""


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """How what stands behind this node does. bus_detail: a sentence where there is something to say."""

    bus_kind: str
    bus_healthy: bool
    bus_detail: str | None
    store_kind: str
    store_healthy: bool


class Status:
    """report: this node's own. backends: how bus and store do; it returns within a few seconds."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        report: Callable[[], NodeReport],
        backends: Callable[[], Awaitable[BackendStatus]],
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._report = report
        self._backends = backends

    async def answer(self, payload: bytes) -> bytes:
        """This node's report for another one, which asked with `STATUS`."""
        return orjson.dumps(asdict(self._report()))

    async def show(self, *, with_sums: bool) -> dict[str, Any]:
        """The body of `GET /v1/admin/status`. Bounded in time; what fails is shown as failing.

        with_sums: also what sums over all tenants; without it those numbers are null.
        """
        own = self._report()
        backends, others = await asyncio.gather(self._backends(), self._others())
        reports = [own, *(report for report in others.values() if report is not None)]
        rows = [report.row(own.id, with_sums=with_sums) for report in reports]
        rows += [silent_row(node) for node, report in others.items() if report is None]
        return {
            "object": "status",
            "at": self._clock.now(),
            "version": own.version,
            "node": own.id,
            "nodes": sorted(rows, key=lambda row: (not row["self"], row["id"])),
            "upstreams": merge_upstreams(reports),
            "bus": {
                "kind": backends.bus_kind,
                "healthy": backends.bus_healthy,
                "detail": backends.bus_detail,
            },
            "store": {"kind": backends.store_kind, "healthy": backends.store_healthy},
            "totals": totals(reports) if with_sums else None,
        }

    async def _others(self) -> dict[str, NodeReport | None]:
        """By id; None for a node that has a lease and gave no answer that can be read."""
        if self._bus.alone:
            return {}
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                nodes = sorted(await self._bus.alive() - {self._bus.node})
        except (BusError, TimeoutError):
            return {}
        return dict(zip(nodes, await asyncio.gather(*map(self._ask, nodes)), strict=True))

    async def _ask(self, node: str) -> NodeReport | None:
        try:
            return NodeReport.read(orjson.loads(await self._bus.ask(node, STATUS, b"", ANSWER_WITHIN_S)))
        except (AntiphonError, TypeError, KeyError, ValueError) as error:
            log.info("node_silent", node=node, error=type(error).__name__)
            return None
