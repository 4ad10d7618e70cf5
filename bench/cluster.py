"""The bench of several nodes: our server on Redis and PostgreSQL, beside the same server on SQLite, on loopback.

    cluster.py                 3 repeats of 1.5 minutes; what kills a node once, 2 minutes
    cluster.py --quick         one short repeat, about 3 minutes
    cluster.py --smoke         some seconds a stage: only shows that the bench works
    cluster.py --only saturated,followed

Every stage starts fresh engines (Valkey with AOF, PostgreSQL that syncs, from the wheels of `deploy/`), fresh
nodes and a mock upstream, and ends them, also on Ctrl-C.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import report
from cluster_measures import QUICK, SMOKE, STANDARD, ClusterProfile, Stage, all_stages
from cluster_servers import CLUSTER, SINGLE, RunningCluster, running_cluster
from figures import Figure, Measure
from load_runs import LoadRuns, end_within, setup_facts
from processes import BenchError, CorePlan, Process
from rich.console import Console
from servers import Antiphon, RunningServer, find_program

HERE = Path(__file__).resolve().parent
LATEST = HERE / "results" / "cluster-latest.json"
SLACK_PER_STAGE_S = 240.0
RECONNECT_S = 60.0
CARRIED = Measure(
    "carried",
    (),
    (
        Figure("carried.events", "events/s, two nodes to one", "events_two_to_one", "×", 2, "higher"),
        Figure("carried.turns", "turns/s, two nodes to one", "turns_two_to_one", "×", 2, "higher"),
    ),
)


class ClusterBench:
    """One bench run."""

    def __init__(self, args: argparse.Namespace, profile: ClusterProfile, program: Path) -> None:
        self.profile = profile
        self.program = program
        self.settings = tuple(args.set)
        self.cores = CorePlan.for_machine(args.pin)
        wanted = set(args.only.split(",")) if args.only else None
        self.stages = [
            replace(stage, measures=chosen)
            for stage in all_stages(profile)
            if (chosen := tuple(m for m in stage.measures if wanted is None or m.key in wanted))
        ]
        measures = [measure for stage in self.stages for measure in stage.measures]
        self.results = report.Results([CLUSTER, SINGLE], [*measures, CARRIED])
        measured_s = max(profile.saturated_s, profile.paced_s, profile.turns_s) + RECONNECT_S
        self.loads = LoadRuns(self.results, measured_s, args.wait_quiet_s)

    def run(self, work_dir: Path) -> report.Results:
        """All repeats of all stages."""
        for repeat in range(self.profile.repeats):
            load = os.getloadavg()[0]
            self.loads.console.log(f"repeat {repeat + 1} of {self.profile.repeats}, load average {load:.1f}")
            for stage in self.stages if repeat == 0 else [stage for stage in self.stages if not stage.once]:
                home = work_dir / f"{stage.key}-{repeat}"
                home.mkdir(mode=0o755)
                try:
                    self._run_stage(stage, home, repeat)
                except BenchError as error:
                    self.results.fail(CLUSTER, stage.key, str(error))
            self._compare(repeat)
        return self.results

    def _run_stage(self, stage: Stage, home: Path, repeat: int) -> None:
        cores = self.cores if stage.pinned else CorePlan(None, None, None)
        with contextlib.ExitStack() as stack:
            upstream = Process(
                [sys.executable, HERE / "mock_upstream.py"], home / "mock.log", cores=cores.upstream
            )
            stack.callback(upstream.stop)
            upstream_url = upstream.wait_for_output(r"(http://127\.0\.0\.1:\d+)", 15)
            cluster = stack.enter_context(
                running_cluster(
                    self.program, upstream_url, home, cores, lease_s=stage.lease_s, settings=self.settings
                )
            )
            single = None
            if stage.beside:
                (home / SINGLE).mkdir()
                single = Antiphon(self.program, self.settings).start(upstream_url, home / SINGLE, cores.server)
                stack.callback(single.process.stop)
            for measure in stage.measures:
                runs = [(CLUSTER, cluster_arguments(cluster, measure))]
                if single is not None and not measure.ours_only:
                    runs.append((SINGLE, server_arguments(single)))
                for name, arguments in runs if repeat % 2 == 0 else runs[::-1]:
                    command = [sys.executable, HERE / measure.script, *measure.arguments, *arguments]
                    command += ["--warm-up-s", str(self.profile.warm_up_s), "--upstream-pid", str(upstream.pid)]
                    self.loads.run(name, measure, home, command, cores.load)

    def _compare(self, repeat: int) -> None:
        """Put what two nodes carried beside what one did."""
        found = self.results.runs.get(CLUSTER, {})
        compared = {}
        for kind in ("events", "turns"):
            one, two = (found.get(f"carry_{kind}_{nodes}", []) for nodes in (1, 2))
            if len(one) > repeat and len(two) > repeat:
                compared[f"{kind}_two_to_one"] = two[repeat][f"{kind}_per_s"] / one[repeat][f"{kind}_per_s"]
        if compared:
            self.results.add(CLUSTER, CARRIED, compared)


def server_arguments(server: RunningServer) -> list[str]:
    """How the load client finds one server."""
    return ["--url", server.websocket_url, "--server-pid", str(server.process.pid)]


def cluster_arguments(cluster: RunningCluster, measure: Measure) -> list[str]:
    """How the load client finds as many nodes as the measure wants, and whose CPU it reads beside the first's."""
    first, *others = cluster.nodes
    arguments = server_arguments(first)
    for node in others[: measure.nodes - 1]:
        arguments += ["--url", node.websocket_url]
    arguments += ["--meter", f"redis={cluster.redis.process.pid}"]
    arguments += ["--meter", f"postgres={cluster.postgres.process.pid}"]
    if measure.nodes > 1 and measure.script != "load.py":
        arguments += ["--follower-pid", str(others[0].process.pid), "--redis-url", cluster.redis.address]
    return arguments


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one short repeat")
    size.add_argument("--smoke", action="store_true", help="only shows that the bench works")
    parser.add_argument("--repeats", type=int, help="default 3; 1 with --quick and --smoke")
    parser.add_argument("--only", help="comma-separated keys of measures, see --list")
    parser.add_argument("--list", action="store_true", help="list the measures and end")
    parser.add_argument("--antiphon", type=Path, help="path of our command")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="environment for ours")
    parser.add_argument("--clients", type=int, help="that lose their node at once (default 10,000; --smoke 200)")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="leave the cores to the kernel")
    parser.add_argument(
        "--wait-quiet-s", type=float, default=0.0, help="before each measure, wait so long for others to end"
    )
    parser.add_argument("--json", type=Path, help=f"where to write (default: {LATEST.relative_to(HERE.parent)})")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    profile = replace(profile, repeats=args.repeats or profile.repeats, clients=args.clients or profile.clients)
    if args.list:
        print("\n".join(measure.key for stage in all_stages(profile) for measure in stage.measures))
        return
    program = args.antiphon or find_program("antiphon")
    if program is None:
        raise SystemExit("no `antiphon` command found: run `make run` once, or give --antiphon PATH")
    bench = ClusterBench(args, profile, program)
    measures = sum(len(stage.measures) for stage in bench.stages)
    end_within(profile.repeats * (len(bench.stages) * SLACK_PER_STAGE_S + measures * args.wait_quiet_s * 2))
    versions = {"antiphon": Antiphon(program).version()}
    setup = setup_facts(bench.cores, profile.repeats, versions, sys.argv[1:])
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as folder:
        work_dir = Path(folder)
        work_dir.chmod(0o711)  # PostgreSQL may run as another account than ours
        results = bench.run(work_dir)
    report.publish(console, results, setup, None if args.smoke else LATEST, args.json)
    if results.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
