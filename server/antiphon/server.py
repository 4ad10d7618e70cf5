"""The process: uvicorn around the application, with signals, drain and garbage collection as we need them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import signal
import socket
from collections.abc import Callable, Generator

import structlog
import uvicorn

from antiphon.app import Antiphon
from antiphon.errors import StartupError
from antiphon.listening import bind, url_of
from antiphon.transport.fast_websocket import FastWebSocketProtocol
from antiphon.transport.slow_http import bounded_http

log = structlog.get_logger(__name__)

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 64 * 1024


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handling: it would close every socket before anything is drained."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class AntiphonServer:
    """A listening server. `start`, then `stop` (or `serve`, which does both around signals)."""

    def __init__(self, app: Antiphon) -> None:
        self.app = app
        settings = app.settings
        self._config = uvicorn.Config(
            app.asgi,
            http=bounded_http(settings.door),
            ws=FastWebSocketProtocol,
            ws_max_size=settings.limits.max_message_bytes,
            ws_ping_interval=settings.timeouts.ping_interval_s,
            ws_ping_timeout=settings.timeouts.ping_timeout_s,
            ws_per_message_deflate=False,
            proxy_headers=False,  # the door has to see the peer itself, to know whether it is a trusted proxy
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            headers=[("x-content-type-options", "nosniff")],
            timeout_graceful_shutdown=2,
        )
        self._server = _Uvicorn(self._config)
        self._serving: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self, listener: socket.socket | None = None) -> None:
        """Start the application and listen. Raises StartupError."""
        listener = listener or bind(self.app.settings.host, self.app.settings.port)
        try:
            await self.app.start()
        except BaseException:
            listener.close()
            raise
        self.url = url_of(listener)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve([listener]), name="uvicorn")
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise StartupError("the HTTP server did not start; see the log above")
            await asyncio.sleep(0)
        _give_memory_back()
        # What lives now lives for ever: full collections need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)

    async def stop(self) -> None:
        """Drain, then stop."""
        await self.app.drain()
        await self.abort()

    async def abort(self) -> None:
        """Stop now: open connections are closed, running runs end `server_lost`."""
        self._server.should_exit = True
        self.app.engine.feeds.shut()
        if self._serving is not None:
            await asyncio.wait([self._serving])
        await self.app.stop()

    async def serve(self, on_started: Callable[[str], None], listener: socket.socket | None = None) -> None:
        """Serve until SIGTERM or SIGINT; a second signal cuts the drain short."""
        await self.start(listener)
        first, second = asyncio.Event(), asyncio.Event()

        def on_signal() -> None:
            (second if first.is_set() else first).set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        on_started(self.url)
        log.info("listening", url=self.url)
        await first.wait()
        draining = asyncio.ensure_future(self.app.drain())
        impatient = asyncio.ensure_future(second.wait())
        await asyncio.wait((draining, impatient), return_when=asyncio.FIRST_COMPLETED)
        for task in (draining, impatient):
            task.cancel()
        await self.abort()
        log.info("stopped")


def _give_memory_back() -> None:
    """Let glibc map blocks of 64 KiB and more one by one, so that they go back to the system when they are freed.

    By itself it raises that threshold with every large block it sees, and a server that has once carried large
    frames keeps their memory for ever, in pieces. Other C libraries have no such call.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
