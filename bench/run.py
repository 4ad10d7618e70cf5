"""The bench: our server and, where installed, the Rust gateway `agentic-server`, side by side on loopback.

    run.py                     3 repeats, about 4 minutes per server
    run.py --repeats 5         the run for figures that are published
    run.py --quick             one short repeat, about 1.5 minutes
    run.py --only throughput_10,paced --servers antiphon

Within a repeat every measure runs on one server and then on the other, in turns who is first; each repeat
starts fresh servers with an empty data folder. Every process started here is ended here, also on Ctrl-C.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import report
from load_runs import LoadRuns, end_within, setup_facts
from measures import QUICK, SMOKE, STANDARD, Measure, Profile, all_measures
from processes import BenchError, CorePlan, Process
from rich.console import Console
from servers import OURS, AgenticServer, Antiphon, RunningServer, Server, find_program, source_revision

HERE = Path(__file__).resolve().parent
LOAD = "load.py"
RESULTS_DIR = HERE / "results"
SLACK_PER_REPEAT_S = 300.0


class Bench:
    """One bench run: the mock upstream for all of it, fresh servers for each repeat."""

    def __init__(self, args: argparse.Namespace, profile: Profile, servers: list[Server]) -> None:
        self.profile = profile
        self.servers = servers
        self.cores = CorePlan.for_machine(args.pin)
        wanted = set(args.only.split(",")) if args.only else None
        self.measures = [m for m in all_measures(profile) if wanted is None or m.key in wanted]
        self.results = report.Results([server.name for server in servers], self.measures)
        measured_s = max(profile.throughput_s, profile.paced_s, profile.turns_s)
        self.loads = LoadRuns(self.results, measured_s, args.wait_quiet_s)

    def run(self, work_dir: Path) -> report.Results:
        """All repeats."""
        with contextlib.ExitStack() as stack:
            command = [sys.executable, HERE / "mock_upstream.py", "--port", "0"]
            upstream = Process(command, work_dir / "mock.log", cores=self.cores.upstream)
            stack.callback(upstream.stop)
            upstream_url = upstream.wait_for_output(r"(http://127\.0\.0\.1:\d+)", 15)
            for repeat in range(self.profile.repeats):
                load = os.getloadavg()[0]
                self.loads.console.log(f"repeat {repeat + 1} of {self.profile.repeats}, load average {load:.1f}")
                self._run_repeat(work_dir / f"repeat{repeat}", repeat, upstream, upstream_url)
        return self.results

    def _run_repeat(self, work_dir: Path, repeat: int, upstream: Process, upstream_url: str) -> None:
        order = self.servers if repeat % 2 == 0 else self.servers[::-1]
        with contextlib.ExitStack() as stack:
            running = list(self._start(stack, order, work_dir, upstream_url))
            for measure in self.measures:
                if measure.fresh or measure.script != LOAD:
                    continue
                if measure.on_rig and self.profile.rig:
                    arguments = ("--wire", "sse", "--url", f"{upstream_url}/v1/responses")
                    self._measure(report.RIG, measure, work_dir, arguments, upstream)
                for server in running:
                    if server.name == OURS or not measure.ours_only:
                        self._load(server, measure, work_dir, upstream)
        for ours in (server for server in order if isinstance(server, Antiphon)):
            self._run_alone(ours, work_dir, upstream, upstream_url)

    def _run_alone(self, ours: Antiphon, work_dir: Path, upstream: Process, upstream_url: str) -> None:
        """What needs a server of its own, and what needs none."""
        for measure in self.measures:
            if measure.script != LOAD:
                command = [ours.python, HERE / measure.script, *measure.arguments]
                self.loads.run(ours.name, measure, work_dir, command, self.cores.load)
            elif measure.fresh:
                with contextlib.ExitStack() as stack:
                    for server in self._start(stack, [ours], work_dir / measure.key, upstream_url):
                        self._load(server, measure, work_dir, upstream)

    def _load(self, server: RunningServer, measure: Measure, work_dir: Path, upstream: Process) -> None:
        arguments = ("--url", server.websocket_url, "--server-pid", str(server.process.pid))
        self._measure(server.name, measure, work_dir, arguments, upstream)

    def _start(
        self, stack: contextlib.ExitStack, order: list[Server], work_dir: Path, upstream_url: str
    ) -> Iterator[RunningServer]:
        for server in order:
            home = work_dir / server.name
            home.mkdir(parents=True)
            try:
                started = server.start(upstream_url, home, self.cores.server)
            except BenchError as error:
                self.results.fail(server.name, "start", str(error))
                continue
            stack.callback(started.process.stop)
            yield started
        time.sleep(0.5)

    def _measure(
        self, name: str, measure: Measure, work_dir: Path, arguments: tuple[str, ...], upstream: Process
    ) -> None:
        """One run of the load client."""
        command = [
            *(sys.executable, HERE / LOAD, *measure.arguments, *arguments),
            *("--warm-up-s", str(self.profile.warm_up_s), "--upstream-pid", str(upstream.pid)),
        ]
        self.loads.run(name, measure, work_dir, command, self.cores.load)


def choose_servers(args: argparse.Namespace) -> list[Server]:
    """Ours first, so that ratios are ours / theirs; a peer only where it is installed."""
    wanted = args.servers.split(",") if args.servers else [OURS, "agentic-server"]
    found: list[Server] = []
    if OURS in wanted:
        program = args.antiphon or find_program("antiphon")
        if program is None:
            raise SystemExit("no `antiphon` command found: run `make run` once, or give --antiphon PATH")
        found.append(Antiphon(program, tuple(args.set)))
    if "agentic-server" in wanted:
        program = args.agentic_server or find_program("agentic-server")
        if program is not None:
            found.append(AgenticServer(program))
        elif args.servers:
            raise SystemExit("no `agentic-server` found: see bench/requirements.txt")
    if not found:
        raise SystemExit("--servers names none of: antiphon, agentic-server")
    return found


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one short repeat, about 1.5 minutes")
    size.add_argument("--smoke", action="store_true", help="some seconds: only shows that the bench works")
    parser.add_argument("--repeats", type=int, help="default 3; 1 with --quick and --smoke")
    parser.add_argument("--only", help="comma-separated keys of measures, see --list")
    parser.add_argument("--list", action="store_true", help="list the measures and end")
    parser.add_argument("--servers", help="comma-separated: antiphon, agentic-server (default: both if found)")
    parser.add_argument("--antiphon", type=Path, help="path of our command")
    parser.add_argument("--agentic-server", type=Path, help="path of the gateway's binary")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="environment for ours")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="leave the cores to the kernel")
    parser.add_argument(
        "--wait-quiet-s", type=float, default=0.0, help="before each measure, wait so long for others to end"
    )
    parser.add_argument("--json", type=Path, help="where to write (default: bench/results/, and latest.json)")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    profile = replace(profile, repeats=args.repeats or profile.repeats)
    if args.list:
        print("\n".join(measure.key for measure in all_measures(profile)))
        return
    servers = choose_servers(args)
    bench = Bench(args, profile, servers)
    waiting_s = args.wait_quiet_s * (len(bench.measures) + 3)
    end_within(profile.repeats * len(servers) * (SLACK_PER_REPEAT_S + waiting_s))
    versions = {server.name: server.version() for server in servers}
    setup = setup_facts(bench.cores, profile.repeats, source_revision(), versions)
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as work_dir:
        results = bench.run(Path(work_dir))
    report.publish(console, results, setup, None if args.smoke else RESULTS_DIR / "latest.json", args.json)
    if results.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
