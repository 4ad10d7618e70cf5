"""A process that has imported what commands of tests need, and forks: what is forked starts without importing it.

    python -P fork_server.py <number of a Unix socket> <module> ...

`forked.py` is its other end. A byte on the socket, sent with three descriptors (a connection, standard output,
standard error), asks for a child. The child reads from the connection what it is to be: a line of JSON. This
process writes to the connection: the child's pid in a line, and its exit status in a line when it has ended. When
the socket closes, the test process is gone, and all children are killed.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys

DESCRIPTORS = 3
IMPORTED_ANEW = ("antiphon.cli.main",)
"""Modules that look at the environment while they are imported; what they import is kept."""


class Parent:
    """What forks. control: the socket of the module's docstring."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, socket.socket] = {}
        self._ended, self._wake = socket.socketpair()
        for end in (self._ended, self._wake):
            end.setblocking(False)

    def run(self) -> tuple[socket.socket, list[int]] | None:
        """Fork as asked. Returns in a child, with its connection and outputs; None in the parent, at the end."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._ended in ready:
                    self._ended.recv(4096)
                    self._reap()
                if self._control in ready:
                    asked, descriptors, _, _ = socket.recv_fds(self._control, 1, DESCRIPTORS)
                    if not asked:
                        self._kill_all()
                        return None
                    connection = socket.socket(fileno=descriptors[0])
                    if self._fork(connection, descriptors[1:]):
                        return connection, descriptors[1:]

    def _fork(self, connection: socket.socket, outputs: list[int]) -> bool:
        """Whether this is the child."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (self._control, self._ended, self._wake, *self._children.values()):
                other.close()
            return True
        for output in outputs:
            os.close(output)
        self._children[pid] = connection
        _tell(connection, pid)
        return False

    def _reap(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._children.pop(pid) as connection:
                    _tell(connection, os.waitstatus_to_exitcode(status))

    def _kill_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the test may not want to know
        connection.sendall(b"%d\n" % number)


def become(connection: socket.socket, outputs: list[int]) -> None:
    """Take on outputs, folder and environment of a command, and do what it says."""
    with connection, connection.makefile() as lines:
        asked = json.loads(lines.readline())
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
        os.close(output)
    own_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    words, within = asked["words"], asked["within"]
    if within or sys.platform == "darwin":  # whose frameworks do not outlive a fork
        command = [*within, sys.executable, *words]
        os.execvp(command[0], command)
    for name in IMPORTED_ANEW:
        sys.modules.pop(name, None)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*filter(None, given), *(path for path in sys.path if path not in own_path)]
    _run(words)


def _run(words: list[str]) -> None:
    """As the interpreter does: `-m module`, `-c code` or a script, and what they are told."""
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = words
    if words[0] == "-c":
        sys.argv[1:2] = []
        sys.path.insert(0, "")
        exec(words[1], {"__name__": "__main__"})
        return
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def _read_authorities_once() -> None:
    """Each HTTP client reads the machine's certificate authorities anew, 50 ms of computing."""
    import httpcore2

    httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)
    httpcore2.default_ssl_context()


def main() -> None:
    for module in sys.argv[2:]:
        importlib.import_module(module)
    if "httpcore2" in sys.modules:
        _read_authorities_once()
    gc.freeze()  # collections in children leave the pages of what was imported alone
    child = Parent(socket.socket(fileno=int(sys.argv[1]))).run()
    if child is not None:
        become(*child)


if __name__ == "__main__":
    main()
