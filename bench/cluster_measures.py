"""What the bench of several nodes measures: stages that start everything anew, and the measures of each."""

from dataclasses import dataclass

from cluster_servers import SINGLE
from figures import Figure, Measure, Target

LOAD_CLUSTER = "load_cluster.py"


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    """How long, how often and how big."""

    repeats: int
    saturated_s: float
    paced_s: float
    turns_s: float
    warm_up_s: float
    waiting_runs: int = 100
    streams: int = 20
    clients: int = 10_000
    """That lose their node; the limit of open files may allow fewer."""
    followed_runs: int = 200
    leases_s: tuple[float, ...] = (5, 1)


STANDARD = ClusterProfile(3, saturated_s=5, paced_s=6, turns_s=4, warm_up_s=1)
QUICK = ClusterProfile(1, saturated_s=3, paced_s=4, turns_s=2, warm_up_s=0.5)
SMOKE = ClusterProfile(
    1,
    saturated_s=0.5,
    paced_s=1,
    turns_s=0.5,
    warm_up_s=0.2,
    waiting_runs=10,
    streams=4,
    clients=200,
    followed_runs=10,
    leases_s=(1,),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Servers started for some measures. pinned: the first node has a core of its own. beside: the same server on
    SQLite runs too, and every measure that it can do is done there as well, at once before or after. once: not in
    every repeat; it has many samples of its own."""

    key: str
    measures: tuple[Measure, ...]
    pinned: bool = True
    beside: bool = False
    lease_s: float = 5
    once: bool = False


def _owner_figures(key: str, label: str, target: Target | None) -> tuple[Figure, ...]:
    return (
        Figure(
            f"{key}.cpu",
            f"CPU per event of the owner, {label}",
            "cpu_us_per_event",
            "µs",
            target=target,
        ),
        Figure(f"{key}.redis", f"CPU per event of Redis, {label}", "meters.redis", "µs"),
        Figure(f"{key}.postgres", f"CPU per event of PostgreSQL, {label}", "meters.postgres", "µs"),
        Figure(f"{key}.cores", f"cores the owner used, {label}", "server_cores", "cores", 2, "none"),
    )


def _owner(profile: ClusterProfile) -> Stage:
    """The cost of an event, alone and with a second node that follows."""
    saturated = Measure(
        "saturated",
        ("throughput", "--sockets", "10", "--seconds", str(profile.saturated_s), "--store"),
        (
            *_owner_figures("saturated", "10 sockets × 200 deltas", Target(1.6, against=SINGLE)),
            Figure("saturated.rate", "events/s, 10 sockets × 200 deltas", "events_per_s", "1/s", 0, "higher"),
        ),
    )
    paced = Measure(
        "paced",
        ("paced", "--sockets", "50", "--rate", "50", "--seconds", str(profile.paced_s), "--store"),
        (
            *_owner_figures("paced", "50 × 50/s", None),
            Figure("paced.p50", "latency p50, 50 × 50/s", "latency_ms.p50", "ms", 2),
            Figure("paced.p99", "latency p99, 50 × 50/s", "latency_ms.p99", "ms", 2),
        ),
    )
    return Stage("owner", (saturated, paced, *_followed(profile)), beside=True)


def _followed(profile: ClusterProfile) -> tuple[Measure, ...]:
    at_once, at_pace = "10 sockets × 200 deltas, followed", "50 × 50/s, followed"
    follower = "CPU per event of the node that follows"
    return (
        Measure(
            "followed_saturated",
            ("follow", "--sockets", "10", "--seconds", str(profile.saturated_s)),
            (
                *_owner_figures("followed_saturated", at_once, None),
                Figure("followed_saturated.follower", f"{follower}, {at_once}", "follower_us_per_event", "µs"),
                Figure(
                    "followed_saturated.rate",
                    f"events/s shown by it, {at_once}",
                    "followed_per_s",
                    "1/s",
                    0,
                    "higher",
                ),
            ),
            ours_only=True,
            nodes=2,
            script=LOAD_CLUSTER,
        ),
        Measure(
            "followed",
            ("follow", "--sockets", "50", "--rate", "50", "--seconds", str(profile.paced_s)),
            (
                Figure("followed.here", "latency p50 on the owner, 50 × 50/s", "here_ms.p50", "ms", 2),
                Figure("followed.here99", "latency p99 on the owner, 50 × 50/s", "here_ms.p99", "ms", 2),
                Figure("followed.added", "added by the other node p50, 50 × 50/s", "added_ms.p50", "ms", 2),
                Figure("followed.added99", "added p99, 50 × 50/s", "added_ms.p99", "ms", 2, target=Target(15)),
                *_owner_figures("followed", at_pace, None),
                Figure("followed.follower", f"{follower}, {at_pace}", "follower_us_per_event", "µs"),
            ),
            ours_only=True,
            nodes=2,
            script=LOAD_CLUSTER,
        ),
    )


def _carry(profile: ClusterProfile) -> Stage:
    """What all cores carry together; the clients and the engines use them too."""
    measures = []
    for nodes, name in ((1, "one node"), (2, "two nodes")):
        measures += [
            Measure(
                f"carry_events_{nodes}",
                ("throughput", "--sockets", "20", "--seconds", str(profile.saturated_s), "--store"),
                (Figure(f"carry_events_{nodes}.rate", f"events/s, {name}", "events_per_s", "1/s", 0, "higher"),),
                ours_only=nodes > 1,
                nodes=nodes,
            ),
            Measure(
                f"carry_turns_{nodes}",
                ("turns", "--sockets", "20", "--seconds", str(profile.turns_s), "--store"),
                (Figure(f"carry_turns_{nodes}.rate", f"turns/s, {name}", "turns_per_s", "1/s", 0, "higher"),),
                ours_only=nodes > 1,
                nodes=nodes,
            ),
        ]
    return Stage("carry", tuple(measures), pinned=False, beside=True)


def _adoption(profile: ClusterProfile, lease_s: float) -> Stage:
    key = f"adoption_{lease_s:g}s"
    since = f"from the end of a lease of {lease_s:g} s"
    counts = ("--sockets", str(profile.waiting_runs), "--streams", str(profile.streams))
    figures = (
        Figure(f"{key}.waiting", f"waiting runs taken, median, {since}", "waiting_ms.p50", "ms", 0),
        Figure(
            f"{key}.waiting_last",
            f"last waiting run taken, {since}",
            "waiting_ms.max",
            "ms",
            0,
            target=Target(2000),
        ),
        Figure(f"{key}.streaming", f"spoken runs ended, median, {since}", "streaming_ms.p50", "ms", 0),
        Figure(
            f"{key}.streaming_last",
            f"last spoken run ended, {since}",
            "streaming_ms.max",
            "ms",
            0,
            target=Target(2000),
        ),
    )
    measure = Measure(key, ("adoption", *counts), figures, ours_only=True, nodes=2, script=LOAD_CLUSTER)
    return Stage(key, (measure,), pinned=False, lease_s=lease_s, once=True)


def _reconnect(profile: ClusterProfile) -> Stage:
    counts = ("--sockets", str(profile.clients), "--streams", str(profile.followed_runs))
    figures = (
        Figure("reconnect.clients", "clients that lose their node at once", "clients", "", 0, "none"),
        Figure("reconnect.back", "until all are back and have everything", "back_s", "s", 1, target=Target(30)),
        Figure("reconnect.going_on", "followers of runs that went on, median", "going_on_ms.p50", "ms", 0),
        Figure("reconnect.going_on_last", "followers of runs that went on, last", "going_on_ms.max", "ms", 0),
        Figure("reconnect.ended", "followers of runs that died, median (lease 5 s)", "ended_ms.p50", "ms", 0),
        Figure("reconnect.lost", "events lost", "lost", "", 0, target=Target(0)),
        Figure("reconnect.rss", "memory of the node that took them", "node_rss_mb", "MB", 0),
    )
    measure = Measure("reconnect", ("reconnect", *counts), figures, ours_only=True, nodes=2, script=LOAD_CLUSTER)
    return Stage("reconnect", (measure,), pinned=False, once=True)


def all_stages(profile: ClusterProfile) -> list[Stage]:
    """In the order in which they run."""
    adoptions = [_adoption(profile, lease_s) for lease_s in profile.leases_s]
    return [_owner(profile), _carry(profile), *adoptions, _reconnect(profile)]
