"""What so many nodes need, by the unit costs that were measured: arithmetic alone, for docs/scaling.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FILLED_CORES = 0.7
"""Of the core of one thread, Redis's or a node's. What waits for it waits ever longer from there on."""
REDIS_BYTES = 1024**3
"""`maxmemory` of docker-compose.yml."""
ENTRIES_OF_A_TURN = 5
"""Of the lifecycle feed: created, started, the call of a model, its usage, completed."""
PROGRESS_RUNS = 100
"""Of which `progress_us` tells."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What each node carries.

    runs: live at once. followed: share of them that one other node follows. watched: whether each node has an open
    dashboard. flush_ms: the setting `bus.flush_ms`. linger_s: how long the log of an ended run stays in Redis.
    """

    runs: float = 100
    run_events_per_s: float = 50
    turn_s: float = 10
    followed: float = 0.1
    watched: bool = True
    flush_ms: float = 5
    linger_s: float = 60

    @property
    def events_per_s(self) -> float:
        return self.runs * self.run_events_per_s

    @property
    def turns_per_s(self) -> float:
        return self.runs / self.turn_s

    @property
    def users(self) -> float:
        """Of one turn a minute each."""
        return self.turns_per_s * 60

    @property
    def appends_per_s(self) -> float:
        """A run's events of one flush go in one append."""
        return self.runs * min(self.run_events_per_s, 1000 / self.flush_ms)

    @property
    def exchanges_per_s(self) -> float:
        """One for all that is due, and never more often than the flush time."""
        return min(self.appends_per_s, 1000 / self.flush_ms)


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """From other benches. event_us, turn_us: CPU of the node. postgres_turn_us: of PostgreSQL."""

    event_us: float
    turn_us: float
    postgres_turn_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """What a cluster of so many nodes needs.

    redis: cores of the thread that executes commands, by kind of work. postgres_cores: of all its processes.
    """

    nodes: int
    users: float
    events_per_s: float
    node_cores: float
    redis: Mapping[str, float]
    redis_bytes: float
    postgres_cores: float

    @property
    def redis_cores(self) -> float:
        return sum(self.redis.values())

    @property
    def first(self) -> str:
        """What is fullest, in words, and how full."""
        shares = {
            "a node's core": self.node_cores / FILLED_CORES,
            "Redis's thread": self.redis_cores / FILLED_CORES,
            "Redis's memory": self.redis_bytes / REDIS_BYTES,
        }
        name = max(shares, key=shares.__getitem__)
        share = shares[name]
        return f"{name}, {share:.0%}" if share < 2 else f"{name}, {share:.1f} ×"


def redis_cores(costs: Mapping[str, float], load: Workload, nodes: int) -> dict[str, float]:
    """Cores of Redis's thread for so many nodes, by kind of work. A single node is followed by nobody."""
    followed = load.followed if nodes > 1 else 0.0
    watching = nodes if load.watched else 0
    entries_per_s = load.turns_per_s * ENTRIES_OF_A_TURN
    each_us_per_s = {
        "appends": 1e6 * append_cores(costs, load.events_per_s, load.appends_per_s, load.exchanges_per_s),
        "followers": followed * (load.appends_per_s * costs["hint_us"] + load.turns_per_s * costs["attach_us"]),
        "turns": load.turns_per_s * (costs["run_us"] + costs["admission_us"]),
        "feed": entries_per_s * (costs["feed_entry_us"] + watching * costs["feed_told_us"])
        + load.runs / PROGRESS_RUNS * (costs["progress_us"] + watching * costs["progress_told_us"]),
        "upkeep": costs["node_us_per_s"] + nodes * costs["node_pair_us_per_s"],
    }
    return {kind: nodes * spent_us / 1e6 for kind, spent_us in each_us_per_s.items()}


def append_cores(
    costs: Mapping[str, float], events_per_s: float, appends_per_s: float, exchanges_per_s: float
) -> float:
    """Cores of Redis's thread for appends alone, followed by nobody."""
    spent_us_per_s = (
        exchanges_per_s * costs["exchange_us"]
        + appends_per_s * costs["append_us"]
        + (events_per_s - appends_per_s) * costs["event_us"]
    )
    return spent_us_per_s / 1e6


def redis_bytes(costs: Mapping[str, float], load: Workload, nodes: int) -> float:
    """Of live runs, which have half of their events on average, and of those that ended `linger_s` ago or less."""
    events_of_a_turn = load.run_events_per_s * load.turn_s
    together = load.events_per_s > load.appends_per_s
    event_bytes = costs["event_of_ten_bytes" if together else "event_bytes"]
    lingering = load.turns_per_s * load.linger_s
    live_bytes = load.runs * (costs["run_bytes"] + events_of_a_turn / 2 * event_bytes)
    return nodes * (live_bytes + lingering * (costs["run_bytes"] + events_of_a_turn * event_bytes))


def nodes_per_redis(costs: Mapping[str, float], load: Workload, most: int = 1000) -> int:
    """The most nodes whose work one thread of Redis does within `FILLED_CORES`."""
    fitting = (
        nodes for nodes in range(most, 0, -1) if sum(redis_cores(costs, load, nodes).values()) <= FILLED_CORES
    )
    return next(fitting, 0)


def rows(
    costs: Mapping[str, float], node: NodeCosts, load: Workload, counts: Sequence[int] = (1, 10, 100)
) -> list[Row]:
    """One for each number of nodes, all of which carry the same."""
    node_cores = (load.events_per_s * node.event_us + load.turns_per_s * node.turn_us) / 1e6
    return [
        Row(
            nodes=nodes,
            users=nodes * load.users,
            events_per_s=nodes * load.events_per_s,
            node_cores=node_cores,
            redis=redis_cores(costs, load, nodes),
            redis_bytes=redis_bytes(costs, load, nodes),
            postgres_cores=nodes * load.turns_per_s * node.postgres_turn_us / 1e6,
        )
        for nodes in counts
    ]


def markdown(found: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = [
        "| nodes | users | events/s | core of each node | Redis: cores of its thread | of it appends, followers,"
        " turns, feed, upkeep | Redis: memory | PostgreSQL: cores | fullest, of what it may be |",
        "|---:|---:|---:|---:|---:|---|---:|---:|---|",
    ]
    for row in found:
        shares = ", ".join(_short(cores) for cores in row.redis.values())
        lines.append(
            f"| {row.nodes} | {row.users:,.0f} | {row.events_per_s:,.0f} | {row.node_cores:.2f} | "
            f"{row.redis_cores:.2f} | {shares} | {row.redis_bytes / 1e6:,.0f} MB | {row.postgres_cores:.2f} | "
            f"{row.first} |"
        )
    return "\n".join(lines)


def _short(value: float) -> str:
    """Two figures that count."""
    if value <= 0:
        return "0"
    return f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}"
