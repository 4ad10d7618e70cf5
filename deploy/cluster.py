"""`make cluster`: two nodes, a Redis-compatible server and PostgreSQL as local processes, without containers.

Data, logs and ports stay in a folder, so that the next start goes on where this one ended. Ctrl-C ends everything
in order, a second one at once. A part that ends by itself is told, and the others go on: kill a node and watch the
other take its runs.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import FrameType

from rich.console import Console
from rich.markup import escape

from deploy.engines import postgres_home, start_postgres, start_valkey
from deploy.parts import Failed, Guard, Part, answers_200, free_port, spawn
from deploy.wheels import Missing

_LOOK_EVERY_S = 0.2
_NODE_STOP_WITHIN_S = 60.0
"""Longer than `timeouts.drain_pause_s` and `timeouts.drain_s` of a node, unless somebody made them long."""

console = Console(highlight=False, soft_wrap=True)


class Signals:
    """Ctrl-C and SIGTERM: the first asks for an end in order, the second for one at once."""

    def __init__(self) -> None:
        self.first, self.second = Event(), Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        (self.second if self.first.is_set() else self.first).set()


class Cluster:
    """The parts of one folder."""

    def __init__(self, folder: Path, nodes: int, signals: Signals) -> None:
        self._folder = folder
        self._node_names = [f"node-{number}" for number in range(1, nodes + 1)]
        self._signals = signals
        self._guard = Guard()
        self._engines: list[Part] = []
        self._nodes: list[Part] = []

    @property
    def parts(self) -> list[Part]:
        """What was started, in that order."""
        return [*self._engines, *self._nodes]

    def start(self) -> None:
        """Start everything, engines first, and wait until it can be used. Raises Missing, Failed."""
        ports = self._ports()
        self._add(self._engines, start_valkey(self._folder, ports["redis"]))
        self._add(self._engines, start_postgres(self._folder, ports["postgres"]))
        self._wait_ready(self._engines)
        if self._signals.first.is_set():
            return
        urls = [engine.address for engine in self._engines]
        for name in self._node_names:
            self._add(self._nodes, _start_node(self._folder, name, ports[name], *urls))
        self._wait_ready(self._nodes)

    def watch(self) -> None:
        """Tell what ends by itself, until a signal comes or no node is left."""
        while not self._signals.first.wait(_LOOK_EVERY_S):
            for part in self.parts:
                if part.ended is not None and not part.told:
                    part.told = True
                    console.print(f"[red]{escape(part.name)} {part.ended}[/red]; its log: {escape(str(part.log))}")
            if all(node.told for node in self._nodes):
                return

    def stop(self) -> None:
        """End everything: the nodes, all at once, then what they need."""
        for parts in (self._nodes, self._engines):
            for part in parts:
                part.ask_to_end()
            for part in parts:
                part.wait_ended(self._signals.second.is_set)
        self._guard.dismiss()

    def print(self) -> None:
        """Say what runs where."""
        rows = [("part", "address", "pid", "log")]
        rows += [(part.name, part.address, str(part.process.pid), str(part.log)) for part in self.parts]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        console.print()
        for number, row in enumerate(rows):
            line = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            console.print(f"  {escape(line)}", style="dim" if number == 0 else None)
        places = " and ".join(escape(str(place)) for place in self._places())
        console.print(
            "\n  Chat in the browser: open a node's address. OpenAI clients: base_url=<address>/v1 api_key=any"
            "\n  Lifecycle of all runs: SUBSCRIBE antiphon:v1:default:lifecycle at the Redis address"
            f"\n  Ctrl-C ends everything; data stay in {places}.\n"
        )

    def _places(self) -> list[Path]:
        home = postgres_home(self._folder)
        return [self._folder] if home.parent == self._folder else [self._folder, home]

    def _add(self, parts: list[Part], part: Part) -> None:
        parts.append(part)
        self._guard.watch(part.process)

    def _wait_ready(self, parts: list[Part]) -> None:
        for part in parts:
            part.wait_until_ready(self._signals.first.is_set)

    def _ports(self) -> dict[str, int]:
        """A port for each part: those of the last time where they are free."""
        path = self._folder / "ports.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        ports: dict[str, int] = {}
        for name in ("redis", "postgres", *self._node_names):
            port = free_port(before.get(name))
            while port in ports.values():
                port = free_port()
            ports[name] = port
        path.write_text(json.dumps({**before, **ports}))
        return ports


def _start_node(folder: Path, name: str, port: int, redis: str, postgres: str) -> Part:
    data, log = folder / name, folder / f"{name}.log"
    data.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "antiphon", "serve", "--host", "127.0.0.1", "--port", str(port)]
    env = {"ANTIPHON_BUS_URL": redis, "ANTIPHON_STORE_URL": postgres, "ANTIPHON_DATA_DIR": str(data)}
    return Part(
        name,
        f"http://127.0.0.1:{port}",
        spawn(command, log, env={**os.environ, **env}),
        log,
        lambda: answers_200(port, "/ready"),
        stop_within_s=_NODE_STOP_WITHIN_S,
    )


def main() -> int:
    """0: ended when asked. 1: a part ended by itself. 2: it did not start."""
    parser = argparse.ArgumentParser(prog="make cluster", description="A whole cluster on this machine.")
    parser.add_argument("--folder", type=Path, default=Path(".cluster"), help="data and logs (default .cluster)")
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes (default 2)")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _alone_in(folder):
            return _run(folder, arguments.nodes)
    except (Missing, Failed, OSError) as error:
        Console(stderr=True, highlight=False).print(f"[red]{escape(str(error))}[/red]", soft_wrap=True)
        return 2


def _run(folder: Path, nodes: int) -> int:
    signals = Signals()
    cluster = Cluster(folder, nodes, signals)
    try:
        cluster.start()
        if not signals.first.is_set():
            cluster.print()
        cluster.watch()
        console.print("Ending: nodes finish what they can, a second Ctrl-C ends them now ...")
    finally:
        cluster.stop()
    console.print("Ended.")
    return 1 if any(part.told for part in cluster.parts) else 0


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises Failed if another cluster runs in it."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"a cluster runs in {folder} already; end it, or name another --folder") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
