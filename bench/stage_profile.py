"""Where the CPU of one measure goes: our server under py-spy, and a table of stages.

    stage_profile.py turns_1_unstored
    stage_profile.py throughput_10 --seconds 10 --stacks /tmp/stacks.txt

Only the main thread is counted: of threads that wait, py-spy takes some for busy. A stage's share of its samples
times the CPU of the main thread (by the kernel's clock, over the measured window) gives its cost. Samples are
taken while the load client lives, so connecting and warming up are in them. Sampling stops the server for a moment
each time: compare shares, and take costs from `run.py`.
"""

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from figures import Measure
from load_runs import LOAD_GRACE_S, end_within
from measures import QUICK, SMOKE, STANDARD, Profile, all_measures
from processes import BenchError, CorePlan, Process
from rich.console import Console
from rich.table import Table
from servers import Antiphon, RunningServer, find_program
from side_by_side import HERE, LOAD, PRINTED_COLUMNS, running_mock
from stages import OTHER, STAGES, StageCounts, count_stages

PTRACE_HINT = (
    "py-spy may not look into the server: run as root, or `sysctl kernel.yama.ptrace_scope=0`; in a container give"
    " it the capability SYS_PTRACE (`docker run --cap-add SYS_PTRACE`)"
)
READY_S = 60.0
WRITE_STACKS_S = 30.0
TOP_UNKNOWN = 8
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of a measure for each event or turn, in µs. main_thread: how much of it the main thread has, 0 to 1."""

    unit: str
    cpu_us: float
    main_thread: float

    @staticmethod
    def of(measure: Measure, result: dict[str, Any]) -> "Cost":
        unit = "turn" if measure.arguments[0] == "turns" else "event"
        return Cost(unit, result[f"cpu_us_per_{unit}"], result["main_thread_share"])


class Profiler:
    """One server, sampled while one load client runs."""

    def __init__(self, args: argparse.Namespace, measure: Measure, profile: Profile, work_dir: Path) -> None:
        self.measure = measure
        self.profile = profile
        self.work_dir = work_dir
        self.cores = CorePlan.for_machine(args.pin)
        self.rate = args.rate
        program = args.antiphon or find_program("antiphon")
        spy = find_program("py-spy")
        if program is None or spy is None:
            raise SystemExit("`antiphon` and `py-spy` are needed: `make bench-profile` installs both")
        self.server = Antiphon(program, (*args.set, *measure.settings))
        self.spy = spy
        self.stacks = work_dir / "stacks.txt"

    def run(self) -> tuple[StageCounts, Cost]:
        """Raises BenchError."""
        with contextlib.ExitStack() as stack:
            upstream, upstream_url = stack.enter_context(running_mock(self.work_dir, self.cores))
            server = self.server.start(upstream_url, self.work_dir, self.cores.server)
            stack.callback(server.process.stop)
            sampler = self._sample(server)
            stack.callback(sampler.stop)
            result = self._load(server, upstream, upstream_url)
            self._finish(sampler)
        if result.get("errors"):
            raise BenchError(f"{result['errors']} errors, first: {result['first_error']}")
        return count_stages(self.stacks.read_text().splitlines()), Cost.of(self.measure, result)

    def _sample(self, server: RunningServer) -> Process:
        """Start py-spy and wait until it samples."""
        command: list[str | Path] = [
            *(self.spy, "record", "--format", "raw", "--threads", "--rate", str(self.rate)),
            *("--output", self.stacks, "--pid", str(server.process.pid)),
        ]
        sampler = Process(command, self.work_dir / "py-spy.log", cores=self.cores.load)
        try:
            sampler.wait_for_output(r"(Sampling process)", READY_S)
        except BenchError as error:
            sampler.stop()
            refused = "ermission" in str(error) or "ptrace" in str(error).lower()
            raise BenchError(f"{PTRACE_HINT}. It said: {error}" if refused else str(error)) from None
        return sampler

    def _load(self, server: RunningServer, upstream: Process, upstream_url: str) -> dict[str, Any]:
        command: list[str | Path] = [
            sys.executable,
            HERE / LOAD,
            *(*self.measure.arguments, "--url", server.websocket_url),
            *("--server-pid", str(server.process.pid), "--warm-up-s", str(self.profile.warm_up_s)),
            *("--upstream-pid", str(upstream.pid), "--upstream-url", upstream_url),
        ]
        client = Process(command, self.work_dir / "load.log", cores=self.cores.load)
        try:
            return dict(orjson.loads(client.wait_for_end(LIMIT_S - LOAD_GRACE_S)))
        finally:
            client.stop(grace_s=0)

    def _finish(self, sampler: Process) -> None:
        """End the sampling; py-spy writes its stacks then."""
        sampler.child.send_signal(signal.SIGINT)
        try:
            sampler.child.wait(WRITE_STACKS_S)
        except subprocess.TimeoutExpired:
            raise BenchError("py-spy wrote no stacks") from None
        if not self.stacks.is_file():
            raise BenchError(f"py-spy wrote no stacks: {sampler.log_tail()}")


def stage_table(counts: StageCounts, cost: Cost) -> Table:
    """Shares and costs by stage, in the order of the path."""
    main_us = cost.cpu_us * cost.main_thread
    table = Table()
    table.add_column("stage")
    table.add_column("% of main thread", justify="right")
    table.add_column(f"µs per {cost.unit}", justify="right")
    for stage in STAGES:
        share = counts.share(stage)
        table.add_row(stage, f"{100 * share:.1f}", f"{main_us * share:,.2f}")
    table.add_section()
    table.add_row("main thread", "100.0", f"{main_us:,.2f}")
    table.add_row("other threads", "", f"{cost.cpu_us - main_us:,.2f}")
    return table


def can_profile(measure: Measure) -> bool:
    """Whether the load client says what an event or a turn of this measure costs."""
    return measure.script == LOAD and any("cpu_us_per_" in figure.path for figure in measure.figures)


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("measure", help="one key of `run.py --list`")
    parser.add_argument("--seconds", type=float, help="of load (default: those of the measure)")
    parser.add_argument("--quick", action="store_true", help="as short as `run.py --quick`")
    parser.add_argument("--smoke", action="store_true", help="only shows that it works")
    parser.add_argument("--rate", type=int, default=200, help="samples a second")
    parser.add_argument("--functions", type=int, default=0, help="so many functions of each stage, too")
    parser.add_argument("--stacks", type=Path, help="keep the raw stacks here, for flame graphs")
    parser.add_argument("--antiphon", type=Path, help="path of our command")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="environment for ours")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="leave the cores to the kernel")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    profile = SMOKE if args.smoke else QUICK if args.quick else STANDARD
    known = {measure.key: measure for measure in all_measures(profile) if can_profile(measure)}
    measure = known.get(args.measure)
    if measure is None:
        raise SystemExit(f"it can profile: {', '.join(known)}")
    if args.seconds:
        measure = replace(measure, arguments=(*measure.arguments, "--seconds", str(args.seconds)))
    end_within(LIMIT_S)
    console = Console(width=None if sys.stdout.isatty() else PRINTED_COLUMNS, highlight=False)
    with tempfile.TemporaryDirectory(prefix="antiphon-profile-", ignore_cleanup_errors=True) as folder:
        profiler = Profiler(args, measure, profile, Path(folder))
        try:
            counts, cost = profiler.run()
        except BenchError as error:
            raise SystemExit(str(error)) from None
        if args.stacks:
            args.stacks.write_text(profiler.stacks.read_text())
    cpu = f"{cost.cpu_us:,.1f} µs CPU per {cost.unit}"
    console.print(f"{measure.key}: {counts.total} samples of the main thread, {cpu}")
    console.print(stage_table(counts, cost))
    for stage in STAGES if args.functions else (OTHER,):
        for function, samples in counts.functions.get(stage, Counter()).most_common(args.functions or TOP_UNKNOWN):
            console.print(f"{stage}: {100 * samples / counts.total:.1f} % {function}")


if __name__ == "__main__":
    main()
