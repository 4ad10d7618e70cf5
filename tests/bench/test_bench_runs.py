"""The bench works, in its smallest form. No time is judged here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
OURS = ROOT / ".venv" / "bin" / "antiphon"
WITHIN_S = 300
pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not PYTHON.is_file(), reason="the environment of the bench: `make setup`"),
]


def bench(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(PYTHON), str(ROOT / "bench" / script), *options, "--smoke", "--no-pin", "--antiphon", str(OURS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, cwd=ROOT)


def figures(done: subprocess.CompletedProcess[str], written: Path) -> dict[str, Any]:
    """The figures of a run that went well."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(written.read_text())["figures"])


def test_ours_and_the_peers_that_only_send_are_measured_side_by_side(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    servers = ["antiphon", "echo", *(["c-sender"] if shutil.which("cc") else [])]
    only = "throughput_1,turns_1_unstored,conversation"
    done = bench("run.py", "--servers", ",".join(servers), "--only", only, "--json", str(written))
    found = figures(done, written)
    for key in ("throughput_1.cpu", "turns_1_unstored.rate"):
        assert list(found[key]["medians"]) == servers
        assert list(found[key]["ratios"]) == servers[1:]
    assert found["conversation.net_growth"]["grade"] in ("met", "first met", "missed")
    assert "/ echo" in done.stdout


def test_a_measure_of_workers_is_made_or_left_out_with_a_word(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    done = bench("run.py", "--servers", "antiphon", "--only", "workers_1,workers_2", "--json", str(written))
    found = figures(done, written)
    if "--workers" in subprocess.run([OURS, "serve", "--help"], capture_output=True, text=True, check=True).stdout:
        assert found["workers.cpu"]["medians"]
    else:
        assert "left out workers_2: `serve` of antiphon has no --workers" in done.stdout


def test_two_revisions_are_compared(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    found = figures(bench("compare.py", "HEAD", "--only", "turns_1_unstored", "--json", str(written)), written)
    assert list(found["turns_1_unstored.cpu"]["ratios"]) == ["base"]


def test_a_profile_has_a_line_for_each_stage_or_says_what_is_not_allowed() -> None:
    done = bench("stage_profile.py", "turns_1_unstored", "--seconds", "2")
    if done.returncode:
        assert "SYS_PTRACE" in done.stderr
    else:
        shown = ("µs per turn", "SSE split", "socket write", "event loop and kernel", "other threads")
        assert [word for word in shown if word not in done.stdout] == []


def test_a_measure_that_does_not_exist_is_named() -> None:
    done = bench("run.py", "--only", "throughput_11")
    assert (done.returncode, "throughput_11" in done.stderr) == (1, True)
