"""Runs client scripts in the environments of the real SDKs, each in a process of its own.

The environments are made by the Makefile: `.venv-clients` from `tests/clients/requirements.txt`, and
`tests/clients/node/node_modules` from its lockfile. Where one is missing, tests that need it are skipped with the
reason; with `CI` set they fail.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.forked import Forks

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
PYTHON_SCRIPTS = ROOT / "tests" / "clients" / "python"
NODE_FOLDER = ROOT / "tests" / "clients" / "node"
SDKS = Forks(PYTHON, "openai", "agents", "pydantic_ai")
CODEX_FOLDER = ROOT / "tests" / "codex"
SCRIPT_S = 60.0


@dataclass(frozen=True)
class Finished:
    """A process that ended."""

    code: int
    stdout: str
    stderr: str


def missing(what: str, how: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    message = f"{what} is missing; {how}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def need_python_sdks() -> Path:
    """The interpreter of `.venv-clients`."""
    if not PYTHON.exists():
        missing(".venv-clients", "make it with `make setup`")
    return PYTHON


def need_node_sdks() -> str:
    """The `node` command, with the SDKs installed beside the scripts."""
    node = shutil.which("node")
    if node is None:
        missing("node", "install Node 20 or newer")
    if not (NODE_FOLDER / "node_modules" / "openai").is_dir():
        missing(f"{NODE_FOLDER.relative_to(ROOT)}/node_modules", "make it with `make setup`")
    return node


def need_codex() -> Path:
    """The Codex command."""
    command = CODEX_FOLDER / "node_modules" / ".bin" / "codex"
    if not command.exists():
        missing("the Codex CLI", "run it with `make test-codex`")
    return command


async def run_process(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    wait_s: float = SCRIPT_S,
) -> Finished:
    """Run to the end; a process that takes longer is killed and fails the test with what it said.

    Scripts of the Python SDKs are forked from a process that has imported the SDKs.
    """
    words = [str(word) for word in command]
    run = _forked if words[0] == str(PYTHON) else _spawned
    finished, in_time = await run(words, {**clean_env(), **(env or {})}, cwd, wait_s)
    if not in_time:
        raise AssertionError(f"{_name(command)} did not end within {wait_s} s\n{_said(finished)}")
    return finished


async def _spawned(
    words: list[str], env: Mapping[str, str], cwd: Path | None, wait_s: float
) -> tuple[Finished, bool]:
    """What a command of its own said, and whether it ended in time."""
    process = await asyncio.create_subprocess_exec(
        *words,
        env=env,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # so that its children can be ended with it
    )
    talk = asyncio.create_task(process.communicate())
    try:
        done, _ = await asyncio.wait({talk}, timeout=wait_s)
    finally:
        if not talk.done():
            os.killpg(process.pid, signal.SIGKILL)
    stdout, stderr = await talk
    return Finished(process.returncode or 0, stdout.decode(), stderr.decode()), bool(done)


async def _forked(
    words: list[str], env: Mapping[str, str], cwd: Path | None, wait_s: float
) -> tuple[Finished, bool]:
    """The same of a script."""
    with tempfile.TemporaryFile() as errors:
        process = await SDKS.start(words[1:], env, errors, cwd=cwd)
        talk = asyncio.create_task(process.rest())
        try:
            done, _ = await asyncio.wait({talk}, timeout=wait_s)
        finally:
            process.kill()
        stdout, code = await talk, await process.wait()
        process.close()
        errors.seek(0)
        return Finished(code, stdout.decode(), errors.read().decode()), bool(done)


async def run_script(command: Sequence[str | Path], **options: Any) -> dict[str, Any]:
    """Run a client script; its last line of output is its result as JSON."""
    finished = await run_process(command, **options)
    if finished.code != 0:
        raise AssertionError(f"{_name(command)} failed with {finished.code}\n{_said(finished)}")
    lines = finished.stdout.strip().splitlines()
    assert lines, f"{_name(command)} printed no result\n{_said(finished)}"
    result = json.loads(lines[-1])
    assert isinstance(result, dict)
    return result


def clean_env() -> dict[str, str]:
    """Our environment without what would steer an SDK: keys, base URLs, proxies."""
    steering = ("OPENAI_", "CODEX_", "ANTIPHON_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(steering) and not name.lower().endswith("_proxy")
    }
    return {**kept, "PYTHONWARNINGS": "default"}


def _name(command: Sequence[str | Path]) -> str:
    return next((Path(part).name for part in command[1:] if Path(part).suffix), str(command[0]))


def _said(finished: Finished) -> str:
    return f"stdout: {finished.stdout[-4000:]}\nstderr: {finished.stderr[-4000:]}"
