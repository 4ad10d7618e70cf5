"""Two nodes with the Redis-compatible server and the PostgreSQL of `deploy/`, in a folder that is thrown away."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from processes import BenchError, CorePlan
from servers import ROOT, Antiphon, RunningServer

sys.path.insert(0, str(ROOT))

from deploy.engines import start_postgres, start_valkey
from deploy.parts import Failed, Guard, Part, free_port
from deploy.wheels import Missing

CLUSTER = "cluster"
SINGLE = "sqlite"


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """nodes: the first is the one whose costs are read, and the one that is killed."""

    redis: Part
    postgres: Part
    nodes: tuple[RunningServer, ...]


@contextlib.contextmanager
def running_cluster(
    program: Path,
    upstream_url: str,
    home: Path,
    cores: CorePlan,
    *,
    lease_s: float,
    settings: tuple[str, ...],
    nodes: int = 2,
) -> Iterator[RunningCluster]:
    """Start everything, and end it. The first node has the server's core; the rest shares the others.

    Raises BenchError.
    """
    others = _other_cores(cores)
    with contextlib.ExitStack() as stack:
        guard = Guard()
        stack.callback(guard.dismiss)
        redis, postgres = (_started(start, home, others, guard, stack) for start in (start_valkey, start_postgres))
        shared = (
            f"ANTIPHON_BUS_URL={redis.address}",
            f"ANTIPHON_STORE_URL={postgres.address}",
            f"ANTIPHON_BUS__LEASE_S={lease_s:g}",
            *settings,
        )
        running = []
        for number in range(nodes):
            folder = home / f"node{number + 1}"
            folder.mkdir()
            node = Antiphon(program, shared).start(upstream_url, folder, others if number else cores.server)
            stack.callback(node.process.stop)
            running.append(node)
        yield RunningCluster(redis, postgres, tuple(running))


@contextlib.contextmanager
def running_valkey(home: Path, cores: frozenset[int] | None) -> Iterator[Part]:
    """The Redis-compatible server alone, as a cluster has it. Raises BenchError."""
    with contextlib.ExitStack() as stack:
        guard = Guard()
        stack.callback(guard.dismiss)
        yield _started(start_valkey, home, cores, guard, stack)


def _started(
    start: Callable[[Path, int], Part],
    home: Path,
    cores: frozenset[int] | None,
    guard: Guard,
    stack: contextlib.ExitStack,
) -> Part:
    """An engine that answers, and that ends with the stack. Raises BenchError."""
    try:
        with _on_cores(cores):
            engine = start(home, free_port())
        stack.callback(_end, engine)
        guard.watch(engine.process)
        engine.wait_until_ready(lambda: False)
    except (Missing, Failed) as error:
        raise BenchError(str(error)) from error
    return engine


def _other_cores(cores: CorePlan) -> frozenset[int] | None:
    if cores.server is None:
        return None
    return frozenset(os.sched_getaffinity(0)) - cores.server


@contextlib.contextmanager
def _on_cores(cores: frozenset[int] | None) -> Iterator[None]:
    """What is started inside inherits these cores."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _end(engine: Part) -> None:
    engine.ask_to_end()
    engine.wait_ended(lambda: False)
