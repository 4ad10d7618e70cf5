"""CPU time and memory of a process and its children, from /proc and the kernel's per-process clock."""

import contextlib
import os
import resource
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ESTABLISHED = "01"  # a state in /proc/net/tcp
_CPUCLOCK_SCHED = 2  # the clock id layout of clock_getcpuclockid(3) on Linux: (~pid << 3) | CPUCLOCK_SCHED


def process_tree(root_pid: int) -> list[int]:
    """The process and every living descendant."""
    found, waiting = [], [root_pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                waiting += map(int, thread.read_text().split())
            except OSError:
                continue
    return found


def _stat_fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _living_cpu_s(pid: int) -> float:
    """CPU of one living process in ns precision; /proc counts in ticks of 10 ms."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED) / 1e9
    except OSError:
        fields = _stat_fields(pid)
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_s(root_pid: int) -> float:
    """CPU seconds of a process and its children so far, those already ended included."""
    total_s = 0.0
    for pid in process_tree(root_pid):
        try:
            fields = _stat_fields(pid)
            total_s += _living_cpu_s(pid) + (int(fields[13]) + int(fields[14])) / _TICKS_PER_S
        except OSError:
            continue
    return total_s


def machine_cpu_s() -> float:
    """CPU seconds of all processes of the machine since boot, interrupts left out; 0 where unknown."""
    try:
        user, nice, system = Path("/proc/stat").read_text().split(maxsplit=4)[1:4]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(nice) + int(system)) / _TICKS_PER_S


def rss_bytes(root_pid: int) -> int:
    """Resident memory of a process and its children, pages shared between them counted for each."""
    total_bytes = 0
    for pid in process_tree(root_pid):
        try:
            total_bytes += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except OSError:
            continue
    return total_bytes


def main_thread_cpu_s(pid: int) -> float:
    """CPU seconds of the first thread of a process; 0 where the kernel does not tell."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def sockets_by_process(root_pid: int, port: int) -> list[int]:
    """How many connections to a loopback port each process of a tree holds; those with none are left out."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == _ESTABLISHED and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    return [held for pid in process_tree(root_pid) if (held := len(inodes & _open_files(pid)))]


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(descriptor.readlink()))
    return found


def raise_open_files_limit() -> None:
    """Let this process and its children hold as many sockets as the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> int:
    """How many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
