"""The Dockerfile and what goes into its context."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.app import Antiphon
from antiphon.errors import StartupError
from antiphon.settings.loading import load_settings
from tests.deploy.compose import ROOT, read_dockerfile
from tests.support.server import running_server

IMAGE = read_dockerfile((ROOT / "Dockerfile").read_text())


def sources() -> list[str]:
    """What the Dockerfile copies out of the context."""
    copies = [rest for stage in IMAGE.stages for word, rest in stage if word == "COPY" and "--from" not in rest]
    return [source for copy in copies for source in copy.split()[:-1]]


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a path through: the last pattern that matches it or a folder above it decides."""
    kept = True
    folders = [path, *(str(folder) for folder in Path(path).parents if str(folder) != ".")]
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").removeprefix("**/")
        subjects = [Path(folder).name for folder in folders] if "**/" in line else folders
        if any(fnmatch.fnmatchcase(subject, pattern) for subject in subjects):
            kept = line.startswith("!")
    return kept


def test_it_builds_from_a_slim_python_in_two_stages() -> None:
    assert [dict(stage)["FROM"] for stage in IMAGE.stages] == ["python:3.11-slim AS build", "python:3.11-slim"]


def test_it_installs_the_locked_versions() -> None:
    installs = [rest for word, rest in IMAGE.stages[0] if word == "RUN" and "pip " in rest]
    assert len(installs) == 1
    assert "--constraint requirements.lock" in installs[0]


def test_the_image_that_comes_out_has_no_build_tools() -> None:
    runs = " ".join(rest for word, rest in IMAGE.final if word == "RUN")
    assert not any(tool in runs for tool in ("pip", "apt", "gcc", "curl"))
    assert [rest for word, rest in IMAGE.final if word == "COPY" and "--from" in rest] == [
        "--from=build /opt/antiphon /opt/antiphon"
    ]
    assert "--without-pip" in " ".join(rest for _, rest in IMAGE.stages[0])


def test_it_does_not_run_as_root() -> None:
    user, group = map(int, IMAGE.last("USER").split(":"))
    assert user > 0
    assert group > 0
    words = [word for word, _ in IMAGE.final]
    assert words.index("USER") > max(place for place, word in enumerate(words) if word in ("RUN", "COPY"))


def test_everything_it_copies_is_there_and_in_the_context() -> None:
    assert sources()
    for source in sources():
        assert (ROOT / source).exists()
        assert in_context(source)


@pytest.mark.parametrize(
    "path", [".env", ".git/config", ".venv/bin/python", "tests/conftest.py", ".cluster/ports.json"]
)
def test_the_context_holds_neither_secrets_nor_what_the_image_does_not_need(path: str) -> None:
    assert not in_context(path)
    assert not in_context("server/antiphon/__pycache__/app.cpython-311.pyc")
    assert in_context("server/antiphon/app.py")


async def test_it_does_not_start_without_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert IMAGE.command[:2] == ["antiphon", "serve"]
    flags = dict(zip(IMAGE.command[2::2], IMAGE.command[3::2], strict=True))
    settings, config = load_settings(host=flags["--host"], data_dir=tmp_path)
    with pytest.raises(StartupError, match="authentication is required"):
        await Antiphon(settings, config=config).start()


async def test_its_health_check_tells_a_server_that_answers_from_one_that_does_not() -> None:
    command = [str(IMAGE.copied.get(word, word)) for word in IMAGE.healthcheck]
    assert command[0] == "python"

    def check(port: int, *path: str) -> int:
        env = {**os.environ, "ANTIPHON_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
        arguments = path or command[2:]
        return subprocess.run(
            [sys.executable, command[1], *arguments], env=env, timeout=30, check=False
        ).returncode

    async with running_server() as server:
        port = int(server.url.rpartition(":")[2])
        assert await asyncio.to_thread(check, port) == 0
        assert await asyncio.to_thread(check, port, "/ready") == 0
        assert await asyncio.to_thread(check, port, "/no-such-page") == 1
    assert await asyncio.to_thread(check, port) == 1
