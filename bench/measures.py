"""What is measured: one list, in the order in which it runs, and how long each profile takes for it."""

from dataclasses import dataclass
from typing import Any

from figures import GATEWAY, SENDER, Figure, Measure, Target


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
    conversation: int = 1000
    """The turn of a conversation whose cost is compared to that of its tenth."""
    worker_sockets: int = 200
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
    conversation=30,
    worker_sockets=20,
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
            Figure(
                f"{key}.cpu",
                f"CPU per event, {label}",
                "cpu_us_per_event",
                "µs",
                target=Target(0.8, 0.6 if store else 0.5, GATEWAY),
            ),
            Figure(f"{key}.rate", f"events/s, {label}", "events_per_s", "1/s", 0, "higher"),
        ),
        on_rig=sockets == 10 and not store,
        prepared=not store,
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
            Figure(
                f"{key}.rate",
                f"turns/s, {label}",
                "turns_per_s",
                "1/s",
                0,
                "higher",
                target=Target(0.8, 1.2, GATEWAY, at_least=True),
            ),
            Figure(f"{key}.cpu", f"CPU per turn, {label}", "cpu_us_per_turn", "µs", 0),
            Figure(f"{key}.p99", f"turn p99, {label}", "turn_ms.p99", "ms", 2),
        ),
        on_rig=sockets == 1 and not store,
        prepared=not store,
    )


def _paced(profile: Profile) -> Measure:
    def latency(quantile: str, target: Target | None = None) -> Figure:
        title, path = f"latency {quantile}, 50 × 50/s", f"latency_ms.{quantile}"
        return Figure(f"paced.{quantile}", title, path, "ms", 2, target=target, less_rig=True)

    added = Target(1, 0.7, GATEWAY)
    return Measure(
        "paced",
        ("paced", "--sockets", "50", "--rate", "50", "--seconds", str(profile.paced_s)),
        (
            latency("p50", added),
            latency("p90"),
            latency("p99", added),
            Figure("paced.cpu", "CPU per event, 50 × 50/s", "cpu_us_per_event", "µs"),
        ),
        on_rig=True,
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


def _watched(profile: Profile, mode: str, what: str, rate: float, target: Target | None = None) -> Measure:
    """One thing shown to many sockets. target: of the CPU per frame, against a peer that is then measured too."""
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
            Figure(f"{mode}.cpu", f"CPU per delivered frame, {what}", "cpu_us_per_event", "µs", 2, target=target),
            Figure(f"{mode}.rate", f"frames/s, {what}", "events_per_s", "1/s", 0, "none"),
            Figure(f"{mode}.p50", f"delivery p50, {what}", "delivery_ms.p50", "ms", 2),
            Figure(f"{mode}.p99", f"delivery p99, {what}", "delivery_ms.p99", "ms", 2),
        ),
        ours_only=True,
        prepared=target is not None,
        fresh=True,
    )


def _stalled(profile: Profile) -> Measure:
    viewers, deltas = str(profile.stalled), str(profile.stalled_deltas)
    title = f"a run with {viewers} viewers that never read costs more by"
    return Measure(
        "stalled",
        ("stalled", "--sockets", viewers, "--deltas", deltas, "--store", "--timeout-s", "60"),
        (Figure("stalled.slowed", title, "slowed_percent", "%", 1, target=Target(2)),),
        ours_only=True,
        fresh=True,
    )


def _conversation(profile: Profile) -> Measure:
    """What a turn costs when a thousand came before it."""
    late, to_tenth = f"turn {profile.conversation:,}", f"turn {profile.conversation:,} / turn 10"
    return Measure(
        "conversation",
        ("conversation", "--turns", str(profile.conversation), "--store"),
        (
            Figure("conversation.early", "CPU of turn 10 of a conversation", "early_us", "µs", 0),
            Figure("conversation.late", f"CPU of {late}", "late_us", "µs", 0),
            Figure("conversation.writing", f"of it, writing its history upstream, {late}", "writing_us", "µs", 0),
            Figure("conversation.growth", f"CPU of {to_tenth}", "growth", "×", 2),
            Figure(
                "conversation.net_growth",
                f"the same outside writing the history upstream, {to_tenth}",
                "net_growth",
                "×",
                2,
                target=Target(1.3, 1.1),
            ),
        ),
        ours_only=True,
    )


WORKERS = (1, 2)


def _workers(profile: Profile) -> list[Measure]:
    """What an event costs on one worker and on two, a local bus included."""
    return [
        Measure(
            f"workers_{workers}",
            (
                *("throughput", "--sockets", str(profile.worker_sockets), "--store"),
                *("--seconds", str(profile.throughput_s)),
            ),
            (
                Figure(f"workers_{workers}.cpu", f"CPU per event, {label}", "cpu_us_per_event", "µs"),
                Figure(f"workers_{workers}.rate", f"events/s, {label}", "events_per_s", "1/s", 0, "higher"),
            ),
            ours_only=True,
            settings=(f"ANTIPHON_WORKERS={workers}",),
            needs="--workers",
        )
        for workers, label in zip(WORKERS, ("one worker, stored", "two workers, stored"), strict=True)
    ]


WORKERS_COMPARED = Measure(
    "workers",
    (),
    (
        Figure("workers.cpu", "CPU per event, two workers / one", "two_to_one", "×", 2, target=Target(1.2, 1.1)),
        Figure(
            "workers.split", "sockets of the fuller of two workers", "fuller_percent", "%", 0, target=Target(60)
        ),
    ),
    ours_only=True,
)


def compare_workers(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """A result of `WORKERS_COMPARED` from one of each of the measures of workers."""
    per_process = two["server_sockets"]
    return {
        "two_to_one": two["cpu_us_per_event"] / one["cpu_us_per_event"],
        "fuller_percent": 100 * max(per_process) / sum(per_process) if per_process else None,
    }


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
                Figure(
                    "idle.socket",
                    "memory per idle socket",
                    "idle_socket_kb",
                    "kB",
                    target=Target(0.3, 0.2, GATEWAY),
                ),
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
        _paced(profile),
        _held(store=True),
        _held(store=False),
        _waiting(profile, attached=False),
        _waiting(profile, attached=True),
        _watched(profile, "viewers", f"one run on {profile.watchers} sockets", 10, Target(2, 1.3, SENDER)),
        _watched(profile, "dashboards", f"one feed on {profile.watchers} dashboards", rate=2),
        _stalled(profile),
        _conversation(profile),
        *_workers(profile),
        _translation(profile),
    ]
