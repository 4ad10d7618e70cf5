"""The servers under test: how each is found, started and asked for its version."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from processes import Process, free_port

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 30.0
MODEL = "mock-model"
OURS = "antiphon"


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the user's configuration reaches a server under test."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}


@dataclass(slots=True)
class RunningServer:
    """A started server and where its socket is."""

    name: str
    process: Process
    websocket_url: str


@dataclass(frozen=True, slots=True)
class Antiphon:
    """Our server, as a user starts it."""

    program: Path
    settings: tuple[str, ...] = ()
    """`NAME=value` pairs for its environment."""
    name: str = OURS

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        env = clean_environment(home) | {
            "PYTHONUNBUFFERED": "1",
            "ANTIPHON_UPSTREAM_URL": f"{upstream_url}/v1",
            "ANTIPHON_UPSTREAM_MODEL": MODEL,
            "ANTIPHON_DATA_DIR": str(home / "data"),
        }
        env |= dict(pair.split("=", 1) for pair in self.settings)
        command = [self.program, "serve", "--port", "0"]
        process = Process(command, home / "antiphon.log", cores=cores, env=env)
        try:
            not_upstream = re.escape(urlsplit(upstream_url).netloc)
            url = process.wait_for_output(rf"(http://(?!{not_upstream}\b)[\w.]+:\d{{2,5}})\b", START_TIMEOUT_S)
            process.wait_for_port(urlsplit(url).port or 0, START_TIMEOUT_S)
        except BaseException:
            process.stop()
            raise
        return RunningServer(self.name, process, url.replace("http://", "ws://") + "/v1/responses")

    @property
    def python(self) -> Path:
        """The interpreter the server runs on."""
        return self.program.parent / "python"

    def version(self) -> str:
        return f"{first_line(self.program, 'version')} ({source_revision()})"


@dataclass(frozen=True, slots=True)
class AgenticServer:
    """The Rust gateway of the PyPI wheel `agentic-api`; its upstream URL comes without `/v1`."""

    program: Path
    name: str = "agentic-server"

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        port = free_port()
        command = [
            self.program,
            *("--llm-api-base", upstream_url),
            "--skip-llm-ready-check",
            *("--gateway-host", "127.0.0.1"),
            *("--gateway-port", str(port)),
            *("--db-url", f"sqlite://{home}/agentic.db"),
        ]
        env = clean_environment(home) | {"RUST_LOG": "error"}
        process = Process(command, home / "agentic-server.log", cores=cores, env=env)
        try:
            process.wait_for_port(port, START_TIMEOUT_S)
        except BaseException:
            process.stop()
            raise
        return RunningServer(self.name, process, f"ws://127.0.0.1:{port}/v1/responses")

    def version(self) -> str:
        return first_line(self.program, "--version")


Server = Antiphon | AgenticServer


def first_line(*command: str | Path) -> str:
    """The first line a short command prints, `unknown` if it fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=20, check=False, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return lines[0] if lines and done.returncode == 0 else "unknown"


def source_revision() -> str:
    """The commit of the tree the bench lies in, marked when something differs from it."""
    return first_line("git", "describe", "--always", "--dirty", "--abbrev=10")


def _candidates(name: str) -> Iterator[Path]:
    yield Path(sys.executable).parent / name
    for environment in (".venv", ".venv-bench"):
        yield ROOT / environment / "bin" / name
    on_path = shutil.which(name)
    if on_path:
        yield Path(on_path)


def find_program(name: str) -> Path | None:
    """A program of this environment, of the repository's environments, or on the PATH."""
    return next((path for path in _candidates(name) if path.is_file()), None)
