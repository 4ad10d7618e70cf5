"""A fresh Valkey for `redis_load.py`, what it costs, and the simulated nodes that use it."""

import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
from cluster_servers import running_valkey
from process_meter import cpu_s, machine_cpu_s, main_thread_cpu_s
from processes import CorePlan

from antiphon.bus.redis.bus import RedisBus
from antiphon.clock import SystemClock
from antiphon.settings import Settings

CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a window took.

    main_s: CPU of Valkey's first thread, which executes all commands, so that one core of it is the limit. all_s:
    of all its threads and of the child that rewrites its file. rig_s: of this process. foreign_cores: what
    everything else on the machine used meanwhile, on average.
    """

    wall_s: float
    main_s: float
    all_s: float
    rig_s: float
    foreign_cores: float


class Meter:
    """Reads what Valkey costs, between `start` and `read`, as often as wanted."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = self._now()

    def start(self) -> None:
        self._began = self._now()

    def read(self) -> Cost:
        wall_s, main_s, all_s, rig_s, machine_s = (
            now - then for now, then in zip(self._now(), self._began, strict=True)
        )
        return Cost(wall_s, main_s, all_s, rig_s, max(0.0, machine_s - all_s - rig_s) / wall_s)

    def _now(self) -> tuple[float, ...]:
        return (
            time.monotonic(),
            main_thread_cpu_s(self._pid),
            cpu_s(self._pid),
            time.process_time(),
            machine_cpu_s(),
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """The running server. address: its URL. client: for what is not measured."""

    address: str
    meter: Meter
    client: redis.Redis

    @property
    def version(self) -> str:
        info = self.client.info("server")
        return f"Valkey {info['valkey_version']}" if "valkey_version" in info else info["redis_version"]

    def used_bytes(self) -> int:
        """Memory its data take, by its own account."""
        return int(self.client.info("memory")["used_memory"])

    def empty(self) -> None:
        """Forget everything of the measure before."""
        self.client.flushall()


@contextlib.contextmanager
def running_engine(folder: Path, cores: CorePlan) -> Iterator[Engine]:
    """Valkey on the server's core, this process on the load client's. Raises BenchError."""
    before = os.sched_getaffinity(0)
    with (
        running_valkey(folder, cores.server) as part,
        contextlib.closing(redis.Redis.from_url(part.address)) as client,
    ):
        if cores.load is not None:
            os.sched_setaffinity(0, cores.load)
        try:
            yield Engine(part.address, Meter(part.process.pid), client)
        finally:
            os.sched_setaffinity(0, before)


@contextlib.asynccontextmanager
async def nodes(engine: Engine, count: int, settings: Settings) -> AsyncIterator[list[RedisBus]]:
    """The real buses of so many nodes: each has a lease, looks at the others, and reads its inbox."""
    async with contextlib.AsyncExitStack() as stack:
        started = []
        for number in range(count):
            bus = RedisBus(engine.address, settings.bus, CLOCK, f"node{number}", {})
            await bus.start()
            stack.push_async_callback(bus.stop)
            started.append(bus)
        yield started
