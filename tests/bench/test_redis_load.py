"""What nodes cost Redis: the bench works in its smallest form. No time is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PROGRAM = BENCH / "redis_load.py"
WITHIN_S = 300


def redis_load(*options: str) -> subprocess.CompletedProcess[str]:
    """The program, by the Python that has the server."""
    command = [sys.executable, str(PROGRAM), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


@pytest.mark.bench
def test_each_kind_of_work_has_a_cost_and_the_table_is_made_of_them(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    done = redis_load("--smoke", "--no-pin", "--json", str(written))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(written.read_text())
    whole = ("append_us", "feed_entry_us", "progress_us", "run_us", "admission_us", "attach_us", "run_bytes")
    assert [name for name in whole if found["costs"][name] <= 0] == []
    assert found["costs"]["event_bytes"] > 200, "an event of 250 bytes"
    assert all(step["taken_per_s"] > 0 for step in found["steps"])
    again = redis_load("--table", "--json", str(written))
    assert again.stdout == done.stdout[-len(again.stdout) :]
    assert [line.split("|")[1].strip() for line in again.stdout.splitlines() if line.startswith("| 1")] == [
        "1",
        "10",
        "100",
    ] * 2


def test_figures_that_only_show_that_the_bench_works_are_not_for_the_docs() -> None:
    done = redis_load("--smoke", "--docs")
    assert (done.returncode, "not for the docs" in done.stderr) == (2, True)


def test_a_table_of_nothing_says_what_to_run(tmp_path: Path) -> None:
    done = redis_load("--table", "--json", str(tmp_path / "none.json"))
    assert (done.returncode, "make bench-redis" in done.stderr) == (1, True)
