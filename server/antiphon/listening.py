"""The sockets that a server, or several workers of one machine, accept connections on."""

from __future__ import annotations

import socket

from antiphon.errors import StartupError

_BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises StartupError with what to do about it."""
    listener = _bound(host, port, shared=False)
    listener.listen(_BACKLOG)
    return listener


def bind_shared(host: str, port: int) -> socket.socket:
    """A socket that shares the port with others made so; the kernel spreads connections over those that listen.

    It does not listen yet: nobody shall wait at a worker that is still starting. Raises StartupError.
    """
    return _bound(host, port, shared=True)


def reserve(host: str, port: int) -> socket.socket:
    """Take the port for `bind_shared`, and hold it while nobody listens. Raises StartupError if it is taken."""
    # Shared ports would join those of another server of this user; an own one is refused.
    with _bound(host, port, shared=False) as probe:
        port = probe.getsockname()[1]
    return bind_shared(host, port)


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartupError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or stop what uses it"
        ) from error
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where it listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
