"""Metrics of all workers of one machine: whichever of them a scrape meets asks the others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from antiphon.errors import AntiphonError, BusError
from antiphon.ops.metrics.exporter import Exporter
from antiphon.ports import Bus

METRICS = "worker.metrics"
"""Kind of the message that asks for a worker's page."""

ANSWER_WITHIN_S = 2.0
_VARIABLE = "ANTIPHON_WORKER_GROUP"


class WorkerMetrics:
    """group: the workers of one supervisor. number: this one's among them, kept when it is started again."""

    def __init__(self, bus: Bus, exporter: Exporter, group: str, number: str) -> None:
        self._bus = bus
        self._exporter = exporter
        self._group = group.encode()
        self._number = number

    async def answer(self, payload: bytes) -> bytes:
        """This worker's page, behind its number; nothing for workers of another machine."""
        return self._own() if payload == self._group else b""

    async def render(self, accept: str) -> tuple[bytes, str]:
        """One page of all workers, each sample with a label `worker`, and its media type.

        Raises BusError if one that should answer does not: half a picture is no picture.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                nodes = sorted(await self._bus.alive() - {self._bus.node})
                others = await asyncio.gather(
                    *(self._bus.ask(node, METRICS, self._group, ANSWER_WITHIN_S) for node in nodes)
                )
        except (AntiphonError, TimeoutError) as error:
            raise BusError("A worker of this machine does not answer; ask again.") from error
        encode, media_type = choose_encoder(accept)
        return encode(_Joined([self._own(), *filter(None, others)])), media_type

    def _own(self) -> bytes:
        page, _ = self._exporter.render("")
        return self._number.encode() + b"\n" + page


class _Joined:
    """Pages of workers as one registry."""

    def __init__(self, pages: Iterable[bytes]) -> None:
        self._pages = pages

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for page in self._pages:
            number, _, text = page.decode().partition("\n")
            for family in text_string_to_metric_families(text):
                known = families.get(family.name)
                if known is None:
                    known = families[family.name] = Metric(family.name, family.documentation, family.type)
                for sample in family.samples:
                    known.add_sample(sample.name, {**sample.labels, "worker": number}, sample.value)
        return families.values()


def place_among_workers() -> tuple[str, str] | None:
    """Group and number that the supervisor gave this process; None for one that is no worker."""
    group, dot, number = os.environ.get(_VARIABLE, "").partition(".")
    return (group, number) if dot else None
