"""Runs of programs that print a result, one after another, and the facts that belong to figures."""

import contextlib
import os
import platform
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import report
from figures import Measure
from process_meter import machine_cpu_s
from processes import BenchError, CorePlan, Process
from rich.console import Console
from servers import source_revision

LOAD_GRACE_S = 60.0
"""What a load client may take beyond its measured seconds: connecting, last turns, closing."""
QUIET_SAMPLE_S = 0.5


class LoadRuns:
    """Runs load clients and keeps their results. wait_quiet_s: before each, give others so long to end."""

    def __init__(self, results: report.Results, measured_s: float, wait_quiet_s: float) -> None:
        self.results = results
        self.console = Console(stderr=True, log_path=False, highlight=False, soft_wrap=True)
        self.measured_s = measured_s
        self.wait_quiet_s = wait_quiet_s
        self.count = 0

    def run(
        self,
        name: str,
        measure: Measure,
        work_dir: Path,
        command: list[str | Path],
        cores: frozenset[int] | None,
        env: dict[str, str] | None = None,
    ) -> None:
        """One program that prints a result; a failure is recorded and the bench goes on."""
        self._wait_for_quiet()
        self.count += 1
        log_path = work_dir / f"load{self.count}.log"
        client = Process(command, log_path, cores=cores, env=env)
        try:
            result = orjson.loads(client.wait_for_end(self.measured_s + LOAD_GRACE_S))
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
        value = report.value_at(result, figure.path)
        if value is not None:
            parts.append(f"{value:,.{figure.digits}f} {figure.unit}")
    return ", ".join(parts) + (f", {result['errors']} ERRORS" if result.get("errors") else "")


def setup_facts(cores: CorePlan, repeats: int, versions: dict[str, str], options: Sequence[str]) -> dict[str, Any]:
    """Machine, versions and date. options: of the command line."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {kernel()}",
        "python": platform.python_version(),
        "pinning": cores.describe(),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "revision": source_revision(),
        "versions": versions,
        "repeats": repeats,
        "options": " ".join(options) or "none",
    }


def kernel() -> str:
    """Its name and version; what a distribution or a host calls its build is left out."""
    return f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"


def cpu_model() -> str:
    """The CPU's name where the kernel tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def end_within(limit_s: float) -> None:
    """Leave through the `finally` blocks, so that children are ended: on signals, and after so long."""
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(signum, _stop)
    signal.alarm(round(limit_s))


def _stop(signum: int, frame: object) -> None:
    raise SystemExit(f"stopped by {signal.Signals(signum).name}")
