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

from figures import ECHO, GATEWAY, OURS, SENDER, Kind
from prepared import write_prepared
from processes import BenchError, Process, free_port

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60.0
COMPILE_TIMEOUT_S = 60.0
MODEL = "mock-model"
PEERS = Path(__file__).resolve().parent / "peers"


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
    source: Path | None = None
    """Another tree whose code runs instead of the installed one, on the same packages."""
    revision: str = ""
    kind: Kind = "ours"

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        env = clean_environment(home) | {
            "PYTHONUNBUFFERED": "1",
            "ANTIPHON_UPSTREAM_URL": f"{upstream_url}/v1",
            "ANTIPHON_UPSTREAM_MODEL": MODEL,
            "ANTIPHON_DATA_DIR": str(home / "data"),
        }
        env |= self.python_path | dict(pair.split("=", 1) for pair in self.settings)
        process = Process([*self.command, "serve", "--port", "0"], home / "antiphon.log", cores=cores, env=env)
        try:
            not_upstream = re.escape(urlsplit(upstream_url).netloc)
            url = process.wait_for_output(rf"(http://(?!{not_upstream}\b)[\w.]+:\d{{2,5}})\b", START_TIMEOUT_S)
            process.wait_for_port(urlsplit(url).port or 0, START_TIMEOUT_S)
        except BaseException:
            process.stop()
            raise
        return RunningServer(self.name, process, url.replace("http://", "ws://") + "/v1/responses")

    @property
    def command(self) -> list[str | Path]:
        return [self.program] if self.source is None else [self.python, "-m", "antiphon"]

    @property
    def python(self) -> Path:
        """The interpreter the server runs on."""
        return self.program.parent / "python"

    @property
    def python_path(self) -> dict[str, str]:
        """What makes an interpreter find the other tree before the installed one."""
        if self.source is None:
            return {}
        return {"PYTHONPATH": f"{self.source / 'server'}:{self.source / 'protocol'}"}

    def script(self, name: str) -> Path:
        """A script of the bench that looks inside the server: the one that belongs to its tree."""
        return (self.source or ROOT) / "bench" / name

    def offers(self, option: str) -> bool:
        """Whether `serve` knows an option."""
        done = subprocess.run(
            [str(part) for part in (*self.command, "serve", "--help")],
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
            env={**os.environ, **self.python_path, "COLUMNS": "200", "NO_COLOR": "1"},
        )
        return option in done.stdout

    def version(self) -> str:
        return (
            f"{first_line(*self.command, 'version', env=self.python_path)} ({self.revision or source_revision()})"
        )


@dataclass(frozen=True, slots=True)
class AgenticServer:
    """The Rust gateway of the PyPI wheel `agentic-api`; its upstream URL comes without `/v1`."""

    program: Path
    name: str = GATEWAY
    kind: Kind = "gateway"

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        port = free_port()
        command: list[str | Path] = [
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


@dataclass(frozen=True, slots=True)
class Echo:
    """The Python ceiling: `peers/echo.py` on the interpreter, and so the uvicorn and websockets, of our server."""

    python: Path
    name: str = ECHO
    kind: Kind = "prepared"

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        frames = write_prepared(home / "frames.txt")
        return start_prepared(self.name, [self.python, PEERS / "echo.py", frames], home, cores)

    def version(self) -> str:
        shown = (
            "import importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in ('uvicorn', 'websockets')))"
        )
        return first_line(self.python, "-c", shown)


@dataclass(frozen=True, slots=True)
class Sender:
    """The physical reference: `peers/sender.c`, compiled at each start, which takes a moment."""

    compiler: Path
    name: str = SENDER
    kind: Kind = "prepared"

    def start(self, upstream_url: str, home: Path, cores: frozenset[int] | None) -> RunningServer:
        frames, program = write_prepared(home / "frames.txt"), home / "sender"
        command = [str(self.compiler), "-O2", "-o", str(program), str(PEERS / "sender.c")]
        built = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        if built.returncode:
            raise BenchError(f"sender.c was not compiled: {built.stderr.strip()[:400]}")
        return start_prepared(self.name, [program, frames], home, cores)

    def version(self) -> str:
        return first_line(self.compiler, "--version")


def start_prepared(
    name: str, command: list[str | Path], home: Path, cores: frozenset[int] | None
) -> RunningServer:
    """Start a peer that says where it listens."""
    process = Process(command, home / f"{name}.log", cores=cores, env=clean_environment(home))
    try:
        url = process.wait_for_output(r"http://(127\.0\.0\.1:\d+)", START_TIMEOUT_S)
    except BaseException:
        process.stop()
        raise
    return RunningServer(name, process, f"ws://{url}/v1/responses")


Server = Antiphon | AgenticServer | Echo | Sender


def first_line(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """The first line a short command prints, `unknown` if it fails. env: added to ours."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
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
