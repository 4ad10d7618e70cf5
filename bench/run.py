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
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import report
from measures import QUICK, SMOKE, STANDARD, Measure, Profile, all_measures
from process_meter import machine_cpu_s
from processes import BenchError, CorePlan, Process
from rich.console import Console
from servers import OURS, AgenticServer, Antiphon, RunningServer, Server, find_program, source_revision

HERE = Path(__file__).resolve().parent
LOAD = "load.py"
RESULTS_DIR = HERE / "results"
LOAD_GRACE_S = 60.0
"""What a load client may take beyond its measured seconds: connecting, last turns, closing."""
SLACK_PER_REPEAT_S = 300.0
QUIET_SAMPLE_S = 0.5


class Bench:
    """One bench run: the mock upstream for all of it, fresh servers for each repeat."""

    def __init__(self, args: argparse.Namespace, profile: Profile, servers: list[Server]) -> None:
        self.profile = profile
        self.servers = servers
        self.cores = CorePlan.for_machine(args.pin)
        wanted = set(args.only.split(",")) if args.only else None
        self.measures = [m for m in all_measures(profile) if wanted is None or m.key in wanted]
        self.results = report.Results([server.name for server in servers], self.measures)
        self.console = Console(stderr=True, log_path=False, highlight=False, soft_wrap=True)
        self.wait_quiet_s = args.wait_quiet_s
        self.load_runs = 0

    def run(self, work_dir: Path) -> report.Results:
        """All repeats."""
        with contextlib.ExitStack() as stack:
            command = [sys.executable, HERE / "mock_upstream.py", "--port", "0"]
            upstream = Process(command, work_dir / "mock.log", cores=self.cores.upstream)
            stack.callback(upstream.stop)
            upstream_url = upstream.wait_for_output(r"(http://127\.0\.0\.1:\d+)", 15)
            for repeat in range(self.profile.repeats):
                load = os.getloadavg()[0]
                self.console.log(f"repeat {repeat + 1} of {self.profile.repeats}, load average {load:.1f}")
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
                self._run(ours.name, measure, work_dir, [ours.python, HERE / measure.script, *measure.arguments])
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
        self._run(name, measure, work_dir, command)

    def _run(self, name: str, measure: Measure, work_dir: Path, command: list[str | Path]) -> None:
        """One program that prints a result; a failure is recorded and the bench goes on."""
        self._wait_for_quiet()
        self.load_runs += 1
        measured_s = max(self.profile.throughput_s, self.profile.paced_s, self.profile.turns_s)
        log_path = work_dir / f"load{self.load_runs}.log"
        client = Process(command, log_path, cores=self.cores.load)
        try:
            result = orjson.loads(client.wait_for_end(measured_s + LOAD_GRACE_S))
        except (BenchError, orjson.JSONDecodeError) as error:
            self.results.fail(name, measure.key, str(error))
            self.console.log(f"{measure.key} on {name}: failed")
            return
        finally:
            client.stop(grace_s=0)
        self.results.add(name, measure, result)
        self.console.log(f"{measure.key} on {name}: {brief(measure, result)}")

    def _wait_for_quiet(self) -> None:
        """Give other work on a shared machine the chance to end; between measures nothing of ours runs."""
        deadline_s = time.monotonic() + self.wait_quiet_s
        while time.monotonic() < deadline_s:
            before_s = machine_cpu_s()
            time.sleep(QUIET_SAMPLE_S)
            if (machine_cpu_s() - before_s) / QUIET_SAMPLE_S <= report.QUIET_CORES:
                return


def brief(measure: Measure, result: dict[str, Any]) -> str:
    """The first figures of a result on one line."""
    parts = []
    for figure in measure.figures:
        value: Any = result
        for key in figure.path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            parts.append(f"{value:,.{figure.digits}f} {figure.unit}")
    return ", ".join(parts) + (f", {result['errors']} ERRORS" if result.get("errors") else "")


def setup_facts(bench: Bench) -> dict[str, Any]:
    """Machine, versions and date: without them a figure is worth nothing."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "pinning": bench.cores.describe(),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "revision": source_revision(),
        "versions": {server.name: server.version() for server in bench.servers},
        "repeats": bench.profile.repeats,
    }


def cpu_model() -> str:
    """The CPU's name where the kernel tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


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


def stop_on_signal(signum: int, frame: object) -> None:
    """Leave through the `finally` blocks, so that children are ended."""
    raise SystemExit(f"stopped by {signal.Signals(signum).name}")


def write_results(results: report.Results, setup: dict[str, Any], json_path: Path | None) -> list[Path]:
    """Write JSON and Markdown; return the paths."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    paths = [json_path] if json_path else [RESULTS_DIR / f"{stamp}.json", RESULTS_DIR / "latest.json"]
    document = orjson.dumps(report.as_json(results, setup), option=orjson.OPT_INDENT_2)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document)
    text = paths[-1].with_suffix(".md")
    text.write_text(report.markdown(results))
    return [*paths, text]


def main() -> None:
    args = parse_args()
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    profile = replace(profile, repeats=args.repeats or profile.repeats)
    if args.list:
        print("\n".join(measure.key for measure in all_measures(profile)))
        return
    servers = choose_servers(args)
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(signum, stop_on_signal)
    bench = Bench(args, profile, servers)
    waiting_s = args.wait_quiet_s * (len(bench.measures) + 3)
    signal.alarm(round(profile.repeats * len(servers) * (SLACK_PER_REPEAT_S + waiting_s)))
    setup = setup_facts(bench)
    console = Console(width=None if sys.stdout.isatty() else 140)
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as work_dir:
        results = bench.run(Path(work_dir))
    for name, value in setup.items():
        console.print(f"{name}: {value}", highlight=False)
    report.print_table(console, results)
    if args.json or not args.smoke:
        written = write_results(results, setup, args.json)
        console.print("written: " + ", ".join(map(str, written)), highlight=False, soft_wrap=True)
    if results.problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
