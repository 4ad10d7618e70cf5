"""Measures servers side by side: interleaved within each repeat, on fresh servers with empty data folders."""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import report
from figures import Measure
from load_runs import LoadRuns, end_within, setup_facts
from measures import (
    QUICK,
    SMOKE,
    STANDARD,
    WORKERS,
    WORKERS_COMPARED,
    Profile,
    all_measures,
    compare_workers,
)
from processes import BenchError, CorePlan, Process
from rich.console import Console
from servers import Antiphon, RunningServer, Server

HERE = Path(__file__).resolve().parent
LOAD = "load.py"
RESULTS_DIR = HERE / "results"
SLACK_PER_REPEAT_S = 300.0
PRINTED_COLUMNS = 200
"""Of the table where no terminal says how wide it is."""


class SideBySide:
    """One bench run: the mock upstream for all of it, fresh servers for each repeat. The first server is ours."""

    def __init__(self, args: argparse.Namespace, profile: Profile, servers: Sequence[Server]) -> None:
        self.profile = profile
        self.servers = servers
        self.cores = CorePlan.for_machine(args.pin)
        self.measures = chosen_measures(profile, args.only)
        keys = {measure.key for measure in self.measures}
        compared = [WORKERS_COMPARED] if {f"workers_{n}" for n in WORKERS} <= keys else []
        self.results = report.Results([server.name for server in servers], [*self.measures, *compared])
        measured_s = max(profile.throughput_s, profile.paced_s, profile.turns_s)
        self.loads = LoadRuns(self.results, measured_s, args.wait_quiet_s)

    def run(self, work_dir: Path) -> report.Results:
        """All repeats."""
        with running_mock(work_dir, self.cores) as (upstream, upstream_url):
            for repeat in range(self.profile.repeats):
                load = os.getloadavg()[0]
                self.loads.console.log(f"repeat {repeat + 1} of {self.profile.repeats}, load average {load:.1f}")
                self._run_repeat(work_dir / f"repeat{repeat}", repeat, upstream, upstream_url)
        return self.results

    def _run_repeat(self, work_dir: Path, repeat: int, upstream: Process, upstream_url: str) -> None:
        order = self.servers if repeat % 2 == 0 else self.servers[::-1]
        shared = [measure for measure in self.measures if not _is_alone(measure)]
        with contextlib.ExitStack() as stack:
            takers = [server for server in order if any(measure.takes(server.kind) for measure in shared)]
            running = list(self._start(stack, takers, work_dir, upstream_url))
            for measure in shared:
                if measure.on_rig and self.profile.rig:
                    arguments = ("--wire", "sse", "--url", f"{upstream_url}/v1/responses")
                    self._measure(report.RIG, measure, work_dir, arguments, upstream, upstream_url)
                for server, started in running:
                    if measure.takes(server.kind):
                        self._load(started, measure, work_dir, upstream, upstream_url)
        for measure in self.measures:
            if _is_alone(measure):
                for server in order:
                    if measure.takes(server.kind):
                        self._run_alone(server, measure, work_dir, upstream, upstream_url)
        self._compare_workers(repeat)

    def _run_alone(
        self, server: Server, measure: Measure, work_dir: Path, upstream: Process, upstream_url: str
    ) -> None:
        """What needs a server of its own, and what needs none."""
        if isinstance(server, Antiphon):
            if measure.needs and not server.offers(measure.needs):
                self.results.skip(measure.key, f"`serve` of {server.name} has no {measure.needs}")
                return
            if measure.script != LOAD:
                command: list[str | Path] = [server.python, server.script(measure.script), *measure.arguments]
                env = {**os.environ, **server.python_path}
                self.loads.run(server.name, measure, work_dir, command, self.cores.load, env)
                return
            server = replace(server, settings=(*server.settings, *measure.settings))
        with contextlib.ExitStack() as stack:
            for _, started in self._start(stack, [server], work_dir / measure.key, upstream_url):
                self._load(started, measure, work_dir, upstream, upstream_url)

    def _load(
        self, server: RunningServer, measure: Measure, work_dir: Path, upstream: Process, upstream_url: str
    ) -> None:
        arguments = ("--url", server.websocket_url, "--server-pid", str(server.process.pid))
        self._measure(server.name, measure, work_dir, arguments, upstream, upstream_url)

    def _start(
        self, stack: contextlib.ExitStack, order: Sequence[Server], work_dir: Path, upstream_url: str
    ) -> Iterator[tuple[Server, RunningServer]]:
        for server in order:
            home = work_dir / server.name
            home.mkdir(parents=True)
            try:
                started = server.start(upstream_url, home, self.cores.server)
            except BenchError as error:
                self.results.fail(server.name, "start", str(error))
                continue
            stack.callback(started.process.stop)
            yield server, started
        time.sleep(0.5)

    def _measure(
        self,
        name: str,
        measure: Measure,
        work_dir: Path,
        arguments: tuple[str, ...],
        upstream: Process,
        upstream_url: str,
    ) -> None:
        """One run of the load client."""
        command: list[str | Path] = [
            sys.executable,
            HERE / LOAD,
            *(*measure.arguments, *arguments),
            *("--warm-up-s", str(self.profile.warm_up_s)),
            *("--upstream-pid", str(upstream.pid), "--upstream-url", upstream_url),
        ]
        self.loads.run(name, measure, work_dir, command, self.cores.load)

    def _compare_workers(self, repeat: int) -> None:
        """Put what an event cost on two workers beside what it cost on one."""
        for server in self.servers:
            found = self.results.runs.get(server.name, {})
            one, two = (found.get(f"workers_{workers}", []) for workers in WORKERS)
            if len(one) > repeat and len(two) > repeat:
                self.results.add(server.name, WORKERS_COMPARED, compare_workers(one[repeat], two[repeat]))


def _is_alone(measure: Measure) -> bool:
    return measure.fresh or bool(measure.settings) or measure.script != LOAD


def chosen_measures(profile: Profile, only: str | None) -> list[Measure]:
    """All measures, or those named. A name that no measure has ends the program."""
    measures = all_measures(profile)
    if not only:
        return measures
    wanted = set(only.split(","))
    if unknown := wanted - {measure.key for measure in measures}:
        raise SystemExit(f"--only names no measure: {', '.join(sorted(unknown))}; see --list")
    return [measure for measure in measures if measure.key in wanted]


@contextlib.contextmanager
def running_mock(work_dir: Path, cores: CorePlan) -> Iterator[tuple[Process, str]]:
    """The mock upstream and its URL."""
    command: list[str | Path] = [sys.executable, HERE / "mock_upstream.py", "--port", "0"]
    upstream = Process(command, work_dir / "mock.log", cores=cores.upstream)
    try:
        yield upstream, upstream.wait_for_output(r"(http://127\.0\.0\.1:\d+)", 15)
    finally:
        upstream.stop()


def add_size_options(parser: argparse.ArgumentParser) -> None:
    """The options of every program that measures side by side."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one short repeat, some minutes")
    size.add_argument("--smoke", action="store_true", help="as short as can be: only shows that the bench works")
    parser.add_argument("--repeats", type=int, help="default 3; 1 with --quick and --smoke")
    parser.add_argument("--only", help="comma-separated keys of measures, see --list")
    parser.add_argument("--list", action="store_true", help="list the measures and end")
    parser.add_argument("--antiphon", type=Path, help="path of our command")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="environment for ours")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="leave the cores to the kernel")
    parser.add_argument(
        "--wait-quiet-s", type=float, default=0.0, help="before each measure, wait so long for others to end"
    )


def profile_of(args: argparse.Namespace) -> Profile:
    """How long and how often."""
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    return replace(profile, repeats=args.repeats or profile.repeats)


def measure_and_publish(
    args: argparse.Namespace,
    make_servers: Callable[[Path], tuple[Sequence[Server], list[str]]],
    latest: Path,
) -> None:
    """Run everything and print it. make_servers: the servers, given a temporary folder, and what is left out.

    The exit code is 1 when figures are not to be trusted.
    """
    profile = profile_of(args)
    if args.list:
        print("\n".join(measure.key for measure in all_measures(profile)))
        return
    console = Console(width=None if sys.stdout.isatty() else PRINTED_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as folder:
        servers, left_out = make_servers(Path(folder))
        bench = SideBySide(args, profile, servers)
        for line in left_out:
            bench.results.skipped.append(line)
        waiting_s = args.wait_quiet_s * (len(bench.measures) + 3)
        end_within(profile.repeats * len(servers) * (SLACK_PER_REPEAT_S + waiting_s))
        versions = {server.name: server.version() for server in servers}
        setup = setup_facts(bench.cores, profile.repeats, versions, sys.argv[1:])
        results = bench.run(Path(folder))
    report.publish(console, results, setup, None if args.smoke else latest, args.json)
    if results.problems:
        raise SystemExit(1)
