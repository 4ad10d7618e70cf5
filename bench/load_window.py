"""What the load clients measure with: CPU of a window of time, quantiles, a place in front of the scheduler."""

import argparse
import os
import time

from process_meter import cpu_s, machine_cpu_s, main_thread_cpu_s

Result = dict[str, object]


class CpuWindow:
    """CPU of server, upstream, this process and everybody else (`foreign`) between `start()` and `stop()`.

    Processes named by `--meter` are read beside the server: their CPU per event stands under `meters`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.meters = dict(args.meter)
        self.pids = {"server": args.server_pid, "upstream": args.upstream_pid, **self.meters}
        self.began: dict[str, float] = {}
        self.spent_s: dict[str, float] = {}
        self.wall_s = 0.0
        self.main_thread_s = 0.0

    def _read(self) -> dict[str, float]:
        readings = {name: cpu_s(pid) for name, pid in self.pids.items() if pid}
        readings["client"] = time.process_time()
        readings["foreign"] = machine_cpu_s() - sum(readings.values())
        return {**readings, "wall": time.perf_counter()}

    def _main_thread_s(self) -> float:
        return main_thread_cpu_s(self.pids["server"]) if self.pids["server"] else 0.0

    def start(self) -> None:
        self.main_thread_s = self._main_thread_s()
        self.began = self._read()

    def stop(self) -> None:
        ended = self._read()
        self.main_thread_s = self._main_thread_s() - self.main_thread_s
        self.spent_s = {name: ended[name] - self.began[name] for name in ended}
        self.wall_s = self.spent_s.pop("wall")

    def result(self, events: int, turns: int) -> Result:
        """Rates and costs of the window."""
        server_us = self.spent_s["server"] * 1e6 if "server" in self.spent_s else None
        return {
            "seconds": self.wall_s,
            "events": events,
            "turns": turns,
            "events_per_s": events / self.wall_s,
            "turns_per_s": turns / self.wall_s,
            "cpu_us_per_event": server_us / events if server_us is not None and events else None,
            "cpu_us_per_turn": server_us / turns if server_us is not None and turns else None,
            "main_thread_share": self.main_thread_s / self.spent_s["server"] if server_us else None,
            "meters": {name: self.spent_s[name] * 1e6 / events for name in self.meters} if events else {},
            **{f"{name}_cores": spent / self.wall_s for name, spent in self.spent_s.items()},
        }


def meter(given: str) -> tuple[str, int]:
    """An argument `NAME=PID`."""
    name, _, pid = given.partition("=")
    return name, int(pid)


def quantiles_ms(values_ns: list[int]) -> dict[str, float | None]:
    """Nearest-rank quantiles in ms."""
    ordered = sorted(values_ns)
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    if not ordered:
        return dict.fromkeys(ranks)
    return {name: ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e6 for name, q in ranks.items()}


def raise_priority() -> str:
    """Let this process run the moment a byte arrives, also on a core it shares with the mock.

    Measured straight against the mock on one shared core: p50 0.02 ms and p99 0.14 ms this way, 0.4 and 1.7
    without, because the kernel lets the mock finish its burst of writes first. Needs root or CAP_SYS_NICE.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return "realtime"
    except (AttributeError, OSError):
        pass
    try:
        os.nice(-15)
        return "nice -15"
    except OSError:
        return "normal"
