"""What nodes cost a Redis, and where it bends: one real Valkey, driven by the server's own code.

    redis_load.py              about 2 minutes
    redis_load.py --quick      about half a minute
    redis_load.py --smoke      some seconds: only shows that the bench works; written only if --json is given
    redis_load.py --table      nothing is measured: what 1, 10 and 100 nodes need, by the costs measured last
    redis_load.py --docs       measures as without it, and writes the figures into docs/scaling.md

First each kind of work alone: CPU of the thread of Valkey that executes commands, for each piece. Then more and
more live runs on several nodes, until an append takes too long. It has to be run by the server's Python. Valkey
comes from a wheel (extra `cluster`) and is started anew, as `cluster.py` and `make cluster` start it.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog
from load_runs import end_within, setup_facts
from processes import BenchError, CorePlan
from redis_engine import running_engine
from redis_kinds import Kinds
from redis_page import UNITS, node_tables, write_page
from redis_steps import Load, Step, climb
from redis_table import append_cores
from rich.console import Console
from rich.table import Table

from antiphon.settings.storage import BusSettings

HERE = Path(__file__).resolve().parent
LATEST = HERE / "results" / "redis-latest.json"
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Profile:
    """window_s, rounds, node_counts: see `Kinds`."""

    window_s: float
    rounds: int
    node_counts: tuple[int, int]
    load: Load


STANDARD = Profile(0.8, 5, (4, 64), Load(10, 50, 0.1, first_runs=100, step_s=3.0, most_steps=14))
QUICK = Profile(0.25, 3, (4, 40), Load(10, 50, 0.1, first_runs=200, step_s=1.0, most_steps=10))
SMOKE = Profile(0.05, 1, (1, 3), Load(2, 50, 0.5, first_runs=20, step_s=0.3, most_steps=2))


def measure(profile: Profile, cores: CorePlan, console: Console) -> dict[str, Any]:
    """Everything, on one Valkey. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with running_engine(home, cores) as engine:
            console.log("costs of each kind of work")
            kinds = Kinds(
                engine, home, window_s=profile.window_s, rounds=profile.rounds, node_counts=profile.node_counts
            )
            costs = asyncio.run(kinds.measure())
            steps = []
            for step in climb(engine, profile.load, BusSettings()):
                console.log(f"{step.offered_per_s:,.0f} events/s: p99 {step.p99_ms:.1f} ms {step.bent}")
                steps.append(step)
            setup = setup_facts(cores, profile.rounds, {"redis": engine.version}, sys.argv[1:])
    return {
        "setup": setup,
        "load": asdict(profile.load),
        "costs": costs,
        "steps": [asdict(step) | {"model_cores": modelled_cores(step, costs, profile.load)} for step in steps],
        "carried_events_per_s": carried(steps),
    }


def modelled_cores(step: Step, costs: Mapping[str, float], load: Load) -> float:
    """What the costs say of `redis_cores`; too much, as they are of a Redis that sleeps between exchanges."""
    appends_per_s = step.taken_per_s / step.events_per_append
    exchanges_per_s = appends_per_s / step.appends_per_exchange
    followers = appends_per_s * load.followed * costs["hint_us"] / 1e6
    return append_cores(costs, step.taken_per_s, appends_per_s, exchanges_per_s) + followers


def carried(steps: Sequence[Step]) -> float:
    """Events/s of the largest step that nothing held up; 0 if there was none."""
    return max((step.taken_per_s for step in steps if not step.bent), default=0.0)


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Both tables."""
    costs = Table("what", "Valkey's first thread, or its memory", title="Costs")
    for name, cost in found["costs"].items():
        costs.add_row(UNITS[name], f"{cost:,.1f}")
    console.print(costs)
    heads = ("runs", "events/s", "taken", "events per append", "appends per exchange", "p50 ms", "p99 ms")
    steps = Table(*heads, "Redis cores", "rig cores", "others' cores", "by the costs", "held up by", title="Steps")
    for row in found["steps"]:
        *values, bent, model_cores = row.values()
        texts = [f"{value:,.0f}" for value in values[:3]] + [
            f"{value:.2f}" for value in [*values[3:], model_cores]
        ]
        steps.add_row(*texts, bent)
    console.print(steps)
    console.print(f"carried: {found['carried_events_per_s']:,.0f} events/s")
    console.print(f"setup: {found['setup']}")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--quick", action="store_true", help="short")
    what.add_argument("--smoke", action="store_true", help="only shows that the bench works")
    what.add_argument("--table", action="store_true", help="only the table of nodes, from what was written last")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/scaling.md")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="leave the cores to the kernel")
    parser.add_argument(
        "--json", type=Path, help=f"what to write or read (default: {LATEST.relative_to(HERE.parent)})"
    )
    args = parser.parse_args()
    if args.smoke and args.docs:
        parser.error("what --smoke measures is not for the docs")
    return args


def main() -> None:
    args = parse_args()
    place: Path = args.json or LATEST
    if args.table:
        if not place.is_file():
            raise SystemExit(f"{place} is not there: run `make bench-redis` first")
        found = orjson.loads(place.read_bytes())
        print(node_tables(found))
        if args.docs:
            write_page(found)
        return
    # Warnings of a feed whose Redis was emptied between two measures belong to nobody's figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    end_within(LIMIT_S)
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    try:
        found = measure(profile, CorePlan.for_machine(args.pin), Console(stderr=True, log_path=False))
    except BenchError as error:
        raise SystemExit(str(error)) from None
    show(Console(width=None if sys.stdout.isatty() else 140), found)
    if args.json or not args.smoke:
        place.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
    print(node_tables(found))
    if args.docs:
        write_page(found)


if __name__ == "__main__":
    main()
