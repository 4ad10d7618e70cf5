"""What is measured: one list, in the order in which it runs, and how long each profile takes for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One number taken out of a load client's result."""

    key: str
    title: str
    path: str
    """Dotted path in the JSON of the load client."""
    unit: str
    digits: int = 1
    better: str = "lower"
    """`lower`, `higher`, or `none` for a number that is context, not a claim."""
    at_most: float | None = None
    """What is wanted of it."""
    ratio_at_most: float | None = None
    """What is wanted of its ratio."""

    @property
    def wanted(self) -> str:
        """For people: what it should be."""
        if self.ratio_at_most is not None:
            return f"ratio ≤ {self.ratio_at_most:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of the load client and the figures it gives."""

    key: str
    arguments: tuple[str, ...]
    figures: tuple[Figure, ...]
    on_rig: bool = False
    """Run it straight against the mock as well, to know what the rig itself costs."""
    ours_only: bool = False
    """The peer has nothing like it."""
    fresh: bool = False
    """On a server of its own, whose heap nothing else has filled."""
    nodes: int = 1
    """So many nodes of a cluster are told to the load client."""
    script: str = "load.py"
    """The load client; `translation.py` runs alone, with the Python of our server."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How long, how often and how big."""

    repeats: int
    throughput_s: float
    turns_s: float
    paced_s: float
    idle_s: float
    idle_sockets: int
    warm_up_s: float
    waiting_runs: int = 1000
    translated: int = 100_000
    """Deltas in each line of the translation."""
    watchers: int = 1000
    """Sockets on one run, and on one feed."""
    watched_s: float = 5
    stalled: int = 100
    stalled_deltas: int = 100_000
    rig: bool = True


STANDARD = Profile(3, throughput_s=5, turns_s=4, paced_s=6, idle_s=2, idle_sockets=1000, warm_up_s=0.5)
QUICK = Profile(
    1,
    throughput_s=2,
    turns_s=1.5,
    paced_s=3,
    idle_s=0.5,
    idle_sockets=300,
    warm_up_s=0.3,
    waiting_runs=300,
    translated=20_000,
    watched_s=3,
)
SMOKE = Profile(
    1,
    throughput_s=0.3,
    turns_s=0.3,
    paced_s=0.6,
    idle_s=0.1,
    idle_sockets=20,
    warm_up_s=0.1,
    waiting_runs=20,
    translated=1000,
    watchers=20,
    watched_s=1,
    stalled=5,
    stalled_deltas=2000,
    rig=False,
)


def _throughput(profile: Profile, sockets: int, store: bool = False) -> Measure:
    key = f"throughput_{sockets}" + ("_stored" if store else "")
    label = f"{sockets} socket{'s' if sockets > 1 else ''}" + (", store: true" if store else "")
    return Measure(
        key,
        (
            *("throughput", "--sockets", str(sockets), "--seconds", str(profile.throughput_s)),
            *(("--store",) if store else ()),
        ),
        (
            Figure(f"{key}.cpu", f"CPU per event, {label}", "cpu_us_per_event", "µs"),
            Figure(f"{key}.rate", f"events/s, {label}", "events_per_s", "1/s", 0, "higher"),
        ),
        on_rig=sockets == 10 and not store,
    )


def _turns(profile: Profile, sockets: int, store: bool) -> Measure:
    key = f"turns_{sockets}_" + ("stored" if store else "unstored")
    label = ("stored" if store else "unstored") + f", {sockets} socket{'s' if sockets > 1 else ''}"
    return Measure(
        key,
        (
            *("turns", "--sockets", str(sockets), "--seconds", str(profile.turns_s)),
            *(("--store",) if store else ()),
        ),
        (
            Figure(f"{key}.rate", f"turns/s, {label}", "turns_per_s", "1/s", 0, "higher"),
            Figure(f"{key}.cpu", f"CPU per turn, {label}", "cpu_us_per_turn", "µs", 0),
            Figure(f"{key}.p99", f"turn p99, {label}", "turn_ms.p99", "ms", 2),
        ),
        on_rig=sockets == 1 and not store,
    )


def _held(store: bool) -> Measure:
    key = "held_" + ("stored" if store else "unstored")
    label = "stored" if store else "unstored"
    return Measure(
        key,
        ("held", "--sockets", "100", *(("--store",) if store else ())),
        (
            Figure(f"{key}.p50", f"held call, answer to next model call p50, {label}", "answer_ms.p50", "ms", 2),
            Figure(f"{key}.p99", f"held call, answer to next model call p99, {label}", "answer_ms.p99", "ms", 2),
            Figure(f"{key}.cpu", f"CPU per answer and the round it begins, {label}", "cpu_us_per_answer", "µs", 0),
        ),
        ours_only=True,
    )


def _waiting(profile: Profile, attached: bool) -> Measure:
    key = "waiting_" + ("attached" if attached else "alone")
    label = "client attached" if attached else "nobody attached"
    runs, seconds = str(profile.waiting_runs), str(max(profile.idle_s * 2, 0.5))
    return Measure(
        key,
        ("waiting", "--sockets", runs, "--seconds", seconds, "--store", *(() if attached else ("--leave",))),
        (
            Figure(f"{key}.run", f"memory per run that waits for a tool, {label}", "waiting_run_kb", "kB"),
            Figure(f"{key}.cores", f"CPU while {runs} runs wait, {label}", "waiting_server_cores", "cores", 4),
        ),
        ours_only=True,
        fresh=True,
    )


def _watched(profile: Profile, mode: str, what: str, rate: float) -> Measure:
    """One thing shown to many sockets."""
    watchers = str(profile.watchers)
    return Measure(
        mode,
        (
            mode,
            "--sockets",
            watchers,
            "--rate",
            str(rate),
            "--seconds",
            str(profile.watched_s),
            "--timeout-s",
            "60",
        ),
        (
            Figure(f"{mode}.cpu", f"CPU per delivered frame, {what}", "cpu_us_per_event", "µs", 2),
            Figure(f"{mode}.rate", f"frames/s, {what}", "events_per_s", "1/s", 0, "none"),
            Figure(f"{mode}.p50", f"delivery p50, {what}", "delivery_ms.p50", "ms", 2),
            Figure(f"{mode}.p99", f"delivery p99, {what}", "delivery_ms.p99", "ms", 2),
        ),
        ours_only=True,
        fresh=True,
    )


def _stalled(profile: Profile) -> Measure:
    viewers, deltas = str(profile.stalled), str(profile.stalled_deltas)
    title = f"a run with {viewers} viewers that never read costs more by"
    return Measure(
        "stalled",
        ("stalled", "--sockets", viewers, "--deltas", deltas, "--store", "--timeout-s", "60"),
        (Figure("stalled.slowed", title, "slowed_percent", "%", 1, at_most=2),),
        ours_only=True,
        fresh=True,
    )


def _translation(profile: Profile) -> Measure:
    kinds = ("text", "reasoning", "arguments")
    title = "translating Chat Completions, per delta of"
    return Measure(
        "translation",
        ("--deltas", str(profile.translated), "--json"),
        tuple(Figure(f"translation.{kind}", f"{title} {kind}", f"over_us.{kind}", "µs", 2) for kind in kinds),
        ours_only=True,
        script="translation.py",
    )


def all_measures(profile: Profile) -> list[Measure]:
    """Memory comes first: afterwards the heap has room and growth would be undercounted."""
    return [
        Measure(
            "idle",
            ("idle", "--sockets", str(profile.idle_sockets), "--seconds", str(profile.idle_s)),
            (
                Figure("idle.fresh", "fresh RSS", "fresh_rss_mb", "MB"),
                Figure("idle.socket", "memory per idle socket", "idle_socket_kb", "kB"),
                Figure("idle.warm", "the same after one turn each", "idle_socket_after_turn_kb", "kB"),
                Figure("idle.connects", "handshakes/s", "connects_per_s", "1/s", 0, "higher"),
            ),
        ),
        _throughput(profile, 1),
        _throughput(profile, 10),
        _throughput(profile, 100),
        _throughput(profile, 10, store=True),
        _turns(profile, 1, store=False),
        _turns(profile, 1, store=True),
        _turns(profile, 10, store=False),
        _turns(profile, 10, store=True),
        Measure(
            "paced",
            ("paced", "--sockets", "50", "--rate", "50", "--seconds", str(profile.paced_s)),
            (
                Figure("paced.p50", "latency p50, 50 × 50/s", "latency_ms.p50", "ms", 2),
                Figure("paced.p90", "latency p90, 50 × 50/s", "latency_ms.p90", "ms", 2),
                Figure("paced.p99", "latency p99, 50 × 50/s", "latency_ms.p99", "ms", 2),
                Figure("paced.cpu", "CPU per event, 50 × 50/s", "cpu_us_per_event", "µs"),
            ),
            on_rig=True,
        ),
        _held(store=True),
        _held(store=False),
        _waiting(profile, attached=False),
        _waiting(profile, attached=True),
        _watched(profile, "viewers", f"one run on {profile.watchers} sockets", rate=10),
        _watched(profile, "dashboards", f"one feed on {profile.watchers} dashboards", rate=2),
        _stalled(profile),
        _translation(profile),
    ]
