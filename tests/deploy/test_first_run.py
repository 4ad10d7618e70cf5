"""deploy/first_run.sh makes secrets once, and shows the key and nothing else."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

from tests.deploy.compose import ROOT, read_env_file, read_services


def first_run(target: Path) -> str:
    """Run it; gives what it said."""
    done = subprocess.run(
        ["sh", str(ROOT / "deploy" / "first_run.sh"), str(target)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=target.parent,
    )
    assert done.stderr == ""
    return done.stdout


def shown_key(said: str) -> str:
    (key,) = re.findall(r"^  (sk-[0-9a-f]{64})$", said, re.MULTILINE)
    return str(key)


def test_every_secret_is_random_and_the_key_is_kept_as_its_digest(tmp_path: Path) -> None:
    said = [first_run(tmp_path / name) for name in ("one", "two")]
    one, two = read_env_file(tmp_path / "one"), read_env_file(tmp_path / "two")
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTIPHON_SEAL_KEY"):
        assert re.fullmatch("[0-9a-f]{64}", one[name])
        assert one[name] != two[name]
    key = shown_key(said[0])
    assert key != shown_key(said[1])
    (record,) = json.loads(one["ANTIPHON_KEY"])
    assert record["sha256"] == hashlib.sha256(key.encode()).hexdigest()
    assert key not in (tmp_path / "one").read_text()


def test_only_the_owner_may_read_them(tmp_path: Path) -> None:
    first_run(tmp_path / ".env")
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first_run(tmp_path / ".env")
    before = (tmp_path / ".env").read_bytes()
    assert "stays as it is" in first_run(tmp_path / ".env")
    assert (tmp_path / ".env").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [".env"]


def test_the_compose_file_needs_nothing_else(tmp_path: Path) -> None:
    first_run(tmp_path / ".env")
    services = read_services(read_env_file(tmp_path / ".env"))
    assert services["node-1"].environment["ANTIPHON_ALLOWED_HOSTS"] == "[]"
