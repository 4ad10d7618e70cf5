"""More and more live runs on several nodes, until Redis takes too long for an append.

Each run speaks so many times a second. Each node has one connection and writes like the journal: what is due goes
in one exchange, an append for each run with all of its new events; the next one no earlier than the flush time
later, and not before its replies. The calls are made by the server's own `take`; they are sent and their replies
read without asyncio, so that one core for this process is more than one for Redis.
"""

import contextlib
import math
import selectors
import socket
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import hiredis
from processes import BenchError
from redis_engine import Cost, Engine
from redis_work import add_events, live_run, taken, terms_of

from antiphon.bus.redis import keys
from antiphon.core.durations import percentile
from antiphon.journal.redis.live import Part, take
from antiphon.journal.redis.scripts import APPEND
from antiphon.settings.storage import BusSettings

LATE_MS = 15.0
"""Appends whose p99 takes longer than the flush time and this are too slow: 20 ms by default."""
FULL_CORES = 0.9
"""From here on a process that has one core is what holds up."""
BEHIND = 0.95
"""A step that takes less than this share of what was offered is beyond what can be carried."""
MACHINE = "machine"
_TRIES = 3
_GROWS = 1.4
_SETTLE_S = 0.4
_SEND_BUFFER_BYTES = 8 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_ANSWER_WITHIN_S = 30.0
_LOOK_S = 0.05
"""How late it may be seen that a step is over."""


@dataclass(frozen=True, slots=True)
class Load:
    """followed: share of the runs that one other node follows. first_runs: live runs of the first step."""

    nodes: int
    run_events_per_s: float
    followed: float
    first_runs: int
    step_s: float
    most_steps: int


@dataclass(frozen=True, slots=True)
class Step:
    """One offered load.

    p50_ms, p99_ms: from an event to Redis having taken it, the flush time included; of the oldest event of each
    append. redis_cores: of its first thread. bent: what held it up, empty if nothing did: `machine` if neither
    Redis nor this process had all of a core.
    """

    runs: int
    offered_per_s: float
    taken_per_s: float
    events_per_append: float
    appends_per_exchange: float
    p50_ms: float
    p99_ms: float
    redis_cores: float
    rig_cores: float
    foreign_cores: float
    bent: str


class Speakers:
    """One node: its live runs, and its connection. Its runs speak one after another, each at its own moment."""

    def __init__(self, name: str, address: str, runs: int, run_events_per_s: float, settings: BusSettings) -> None:
        self._terms = terms_of(name, "SPUBLISH", settings)
        self._flush_s = settings.flush_ms / 1000
        self._interval_s = 1 / (run_events_per_s * runs)
        self._runs = [live_run(f"{name}_{number}") for number in range(runs)]
        self._replies = hiredis.Reader()
        self._waiting: deque[tuple[Part, float]] = deque()
        self._spoken = 0
        self._began_s = self.due_at_s = time.monotonic()
        self.socket = connect(address)
        self.latencies_s: list[float] = []
        self.events = self.exchanges = 0

    @property
    def idle(self) -> bool:
        """Whether all replies are there."""
        return not self._waiting

    def channels(self, count: int) -> list[str]:
        """Of so many of its runs."""
        return [keys.run_hint(run.run_id) for run in self._runs[:count]]

    def forget(self) -> None:
        """Count anew from here on."""
        self.latencies_s = []
        self.events = self.exchanges = 0

    def flush(self, now_s: float) -> None:
        """Send what was spoken since the last flush."""
        self.due_at_s = now_s + self._flush_s
        until = int((now_s - self._began_s) / self._interval_s)
        numbers = range(self._spoken, until)
        if not numbers:
            return
        self._spoken = until
        packed = []
        for number, count in self._new(numbers):
            run = self._runs[number % len(self._runs)]
            add_events(run, count)
            part = take(run, self._terms)
            script, run_keys, args = part.call
            packed.append(hiredis.pack_command(("EVALSHA", script.sha, len(run_keys), *run_keys, *args)))
            self._waiting.append((part, self._began_s + (number + 1) * self._interval_s))
        self.exchanges += 1
        self.events += len(numbers)
        self.socket.sendall(b"".join(packed))

    def _new(self, numbers: range) -> list[tuple[int, int]]:
        """For each run that spoke: the number of its oldest event among all of the node, and how many it has."""
        runs = len(self._runs)
        return [(number, len(range(number, numbers.stop, runs))) for number in numbers[:runs]]

    def read(self) -> None:
        """Take the replies that are there. Raises BenchError."""
        received = self.socket.recv(_READ_BYTES)
        if not received:
            raise BenchError("Redis closed a connection")
        self._replies.feed(received)
        now_s = time.monotonic()
        while (reply := self._replies.gets()) is not False:
            part, oldest_s = self._waiting.popleft()
            taken(part, reply)
            self.latencies_s.append(now_s - oldest_s)


class Follower:
    """The subscriber of one node: hears of runs of others, and throws it away."""

    def __init__(self, address: str, channels: list[str]) -> None:
        self.socket = connect(address)
        self.socket.sendall(b"".join(hiredis.pack_command(("SSUBSCRIBE", channel)) for channel in channels))

    def read(self) -> None:
        """Raises BenchError."""
        if not self.socket.recv(_READ_BYTES):
            raise BenchError("Redis cut off a subscriber")


def climb(engine: Engine, load: Load, settings: BusSettings) -> Iterator[Step]:
    """Steps until one is held up, then two between it and the one before. Raises BenchError."""
    engine.client.script_load(APPEND.text)
    carried, runs = 0, load.first_runs
    for _ in range(load.most_steps):
        step = yield from _tried(engine, load, settings, runs)
        if step.bent:
            break
        carried, runs = runs, math.ceil(runs * _GROWS)
    else:
        return
    for _ in range(2):
        between = (carried + runs) // 2
        step = yield from _tried(engine, load, settings, between)
        carried, runs = (carried, between) if step.bent else (between, runs)


def _tried(engine: Engine, load: Load, settings: BusSettings, runs: int) -> Generator[Step, None, Step]:
    """One step; again if it was the machine that held it up, which may have been busy for a moment."""
    for _ in range(_TRIES):
        step = take_step(engine, load, settings, runs)
        yield step
        if step.bent != MACHINE:
            break
    return step


def take_step(engine: Engine, load: Load, settings: BusSettings, runs: int) -> Step:
    """One offered load, on a Redis that is empty. Raises BenchError."""
    engine.empty()
    per_node = math.ceil(runs / load.nodes)
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        speakers = []
        for number in range(load.nodes):
            node = Speakers(f"node{number}", engine.address, per_node, load.run_events_per_s, settings)
            follower = Follower(engine.address, node.channels(round(per_node * load.followed)))
            for one in (node, follower):
                stack.callback(one.socket.close)
                selector.register(one.socket, selectors.EVENT_READ, one)
            speakers.append(node)
        _drive(selector, speakers, _SETTLE_S)
        for node in speakers:
            node.forget()
        engine.meter.start()
        _drive(selector, speakers, load.step_s)
        cost = engine.meter.read()
    return _step(speakers, per_node * load.nodes, load.run_events_per_s, cost, settings.flush_ms + LATE_MS)


def _drive(selector: selectors.BaseSelector, speakers: Sequence[Speakers], duration_s: float) -> None:
    """Let nodes speak for so long, and until Redis has taken something. Raises BenchError."""
    until_s = time.monotonic() + duration_s
    while (now_s := time.monotonic()) < until_s or not any(node.latencies_s for node in speakers):
        if now_s > until_s + _ANSWER_WITHIN_S:
            raise BenchError("Redis took nothing in a whole step")
        for node in speakers:
            if node.idle and node.due_at_s <= now_s:
                node.flush(now_s)
        next_s = min((node.due_at_s for node in speakers if node.idle), default=now_s + _LOOK_S)
        for key, _ in selector.select(max(0.0, min(next_s, now_s + _LOOK_S) - time.monotonic())):
            key.data.read()


def _step(speakers: Sequence[Speakers], runs: int, run_events_per_s: float, cost: Cost, limit_ms: float) -> Step:
    latencies_s = [latency_s for node in speakers for latency_s in node.latencies_s]
    events, appends = sum(node.events for node in speakers), len(latencies_s)
    p99_ms = percentile(latencies_s, 0.99) * 1000
    redis_cores, rig_cores = cost.main_s / cost.wall_s, cost.rig_s / cost.wall_s
    offered_per_s, taken_per_s = runs * run_events_per_s, events / cost.wall_s
    bent = ""
    if p99_ms > limit_ms or taken_per_s < BEHIND * offered_per_s:
        bent = "Redis" if redis_cores >= FULL_CORES else "rig" if rig_cores >= FULL_CORES else MACHINE
    return Step(
        runs=runs,
        offered_per_s=offered_per_s,
        taken_per_s=taken_per_s,
        events_per_append=events / appends,
        appends_per_exchange=appends / max(1, sum(node.exchanges for node in speakers)),
        p50_ms=percentile(latencies_s, 0.5) * 1000,
        p99_ms=p99_ms,
        redis_cores=redis_cores,
        rig_cores=rig_cores,
        foreign_cores=cost.foreign_cores,
        bent=bent,
    )


def connect(address: str) -> socket.socket:
    """A connection to Redis without a client."""
    place = urlsplit(address)
    connection = socket.create_connection((place.hostname, place.port), timeout=_ANSWER_WITHIN_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    return connection
