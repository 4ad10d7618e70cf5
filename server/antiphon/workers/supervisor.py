"""The parent of the workers: it holds the port, the database's lock and the bus, and serves nobody itself."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType

import structlog

from antiphon.errors import StartupError
from antiphon.listening import reserve, url_of
from antiphon.runs.compaction.sealing import SEAL_KEY, Sealer
from antiphon.settings import Settings
from antiphon.store import database
from antiphon.workers.local_bus import LocalBus
from antiphon.workers.processes import Child, Guard, Program, environment

log = structlog.get_logger(__name__)

_LOOK_S = 0.1
_READY_WITHIN_S = 120.0
_STOP_GRACE_S = 30.0
"""What a worker may take beyond the time its settings give to a drain."""

CANNOT_START = 2
"""Exit status of a worker whose configuration cannot work; it has said why."""


class Supervisor:
    """flags: settings that were given on the command line. config: the file in use."""

    def __init__(self, settings: Settings, config: Path | None, flags: Mapping[str, object]) -> None:
        self._settings = settings
        self._flags = {
            f"ANTIPHON_{name.upper()}": str(value) for name, value in flags.items() if value is not None
        }
        if config is not None:
            self._flags["ANTIPHON_CONFIG"] = str(config.resolve())
        self._guard = Guard()
        self._signals = 0
        self._bus: LocalBus | None = None
        self._held_port: socket.socket | None = None
        self._reads, self._writes = os.pipe()
        """Each worker writes a byte once it serves."""
        self._group = secrets.token_hex(8)
        self._workers = [
            Child(f"worker {number}", partial(self._worker, number), self._guard)
            for number in range(1, settings.workers + 1)
        ]

    def run(self, on_started: Callable[[str], None]) -> int:
        """Serve until SIGTERM or SIGINT; gives the exit status. Raises StartupError.

        on_started: called once with the address, when every worker serves.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        lock = database.DatabaseLock(self._settings.database_path)
        try:
            self._held_port = reserve(self._settings.host, self._settings.port)
            if self._settings.store_engine == "sqlite":
                lock.acquire()
                database.migrate(self._settings.database_path)
                if self._settings.seal_key is None:
                    Sealer(None, self._settings.data_path / SEAL_KEY).load()
            self._start_bus()
            for worker in self._workers:
                worker.start()
            if not self._wait_ready():
                return CANNOT_START
            if not self._signals:
                on_started(url_of(self._held_port))
            self._watch()
            return 0
        finally:
            self._stop()
            lock.release()
            if self._held_port is not None:
                self._held_port.close()
            os.close(self._reads)
            os.close(self._writes)
            self._guard.dismiss()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _start_bus(self) -> None:
        if self._settings.bus_url.startswith("memory:"):
            self._bus = LocalBus(
                self._settings.data_path, self._guard, durable=self._settings.journal.mode == "strict"
            )
            self._bus.start()

    def _worker(self, number: int) -> Program:
        assert self._held_port is not None
        values = {
            **self._flags,
            "ANTIPHON_PORT": str(self._held_port.getsockname()[1]),
            "ANTIPHON_WORKERS": str(self._settings.workers),
            "ANTIPHON_WORKER_GROUP": f"{self._group}.{number}",
        }
        if self._bus is not None:
            values["ANTIPHON_BUS_URL"] = self._bus.url
        command = [sys.executable, "-m", "antiphon", "worker", str(self._writes)]
        return Program(command, environment(**values), passed=(self._writes,))

    def _wait_ready(self) -> bool:
        """Until every worker serves, or we are to stop. False if one cannot start."""
        deadline = time.monotonic() + _READY_WITHIN_S
        ready = 0
        while ready < len(self._workers) and not self._signals:
            if select.select([self._reads], [], [], _LOOK_S)[0]:
                ready += len(os.read(self._reads, len(self._workers)))
            if any(worker.status == CANNOT_START for worker in self._workers):
                return False
            if time.monotonic() > deadline:
                raise StartupError(f"the workers did not serve within {_READY_WITHIN_S:.0f} s; see the log above")
            self._keep()
        return True

    def _watch(self) -> None:
        while not self._signals:
            time.sleep(_LOOK_S)
            self._keep()

    def _keep(self) -> None:
        if self._bus is not None:
            self._bus.child.keep()
        for worker in self._workers:
            worker.keep()

    def _stop(self) -> None:
        """The workers in order, all at once; a second signal hurries them. Then what they need."""
        timeouts = self._settings.timeouts
        deadline = time.monotonic() + timeouts.drain_pause_s + timeouts.drain_s + _STOP_GRACE_S
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        seen = min(self._signals, 1)
        while any(worker.status is None for worker in self._workers) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            if self._signals > seen:
                seen = self._signals
                for worker in self._workers:
                    worker.signal(signal.SIGTERM)
        for worker in self._workers:
            worker.wait(deadline - time.monotonic())
        if self._bus is not None:
            self._bus.stop(_STOP_GRACE_S)
