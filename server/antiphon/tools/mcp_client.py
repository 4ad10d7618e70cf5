"""One MCP server as the rest sees it: list, call, close. Started when first needed, again after its death."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsResult,
    Tool,
)
from pydantic import ValidationError

from antiphon import __version__
from antiphon.errors import ToolError
from antiphon.ports import Clock
from antiphon.tools.mcp_lists import LenientReader

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams as Streams

log = structlog.get_logger(__name__)

_MAX_PAGES = 100
_MAX_LISTED = 20_000
_MAX_REASON = 500
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_CLOSE_S = 5.0

# The SDK logs messages, thus arguments and outputs, and httpx2 logs addresses, which may hold keys.
for _noisy in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


class Endpoint(Protocol):
    """A way to reach an MCP server."""

    def connect(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[Streams]:
        """Streams of a new session; `ended` is called when the other side is gone."""
        ...


class _Session:
    """A session in a task of its own: it must be opened and closed by the same one."""

    def __init__(self, endpoint: Endpoint, label: str, on_end: Callable[[_Session], None]) -> None:
        self._endpoint = endpoint
        self._label = label
        self._reader: LenientReader | None = None
        self._on_end = on_end
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.ended = False
        self.task = asyncio.create_task(self._live())

    async def client(self) -> Client:
        """The session, once it is ready. Raises ToolError if it could not be begun."""
        return await asyncio.shield(self._client)

    async def _live(self) -> None:
        reason = "it ended before it was ready"
        try:
            info = Implementation(name="antiphon", version=__version__)
            async with Client(self._streams(), client_info=info, cache=None) as client:
                self._client.set_result(client)
                await self._closing.wait()
        except (Exception, BaseExceptionGroup) as error:
            reason = reason_of(error)
        finally:
            if not self._client.done():
                self._client.set_exception(ToolError(reason))
                self._client.exception()  # nobody may be waiting any more
            self._finish()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Streams]:
        async with self._endpoint.connect(self._finish) as (incoming, outgoing):
            self._reader = LenientReader(incoming, self._label)
            yield self._reader, outgoing

    async def page(self, cursor: str | None) -> ListToolsResult:
        """One page of its tools. A list that the SDK refuses for some of them is asked for again without those."""
        client = await self.client()
        reader = self._reader
        assert reader is not None, "there is a client"
        forgiven = reader.forgiving
        try:
            return await client.list_tools(cursor=cursor)
        except ValidationError:
            if forgiven:
                raise
            reader.forgive(client.protocol_version)
        return await client.list_tools(cursor=cursor)

    def _finish(self) -> None:
        """No more requests: the other side is gone, though what was its process may still need an end."""
        self._closing.set()
        if not self.ended:
            self.ended = True
            self._on_end(self)

    def close(self) -> None:
        """Begin to end it; `task` is done when that is done."""
        self._closing.set()
        if not self._client.done():
            self.task.cancel()


class McpServer:
    """label: how clients know it. Several runs may use it at the same time."""

    def __init__(self, label: str, endpoint: Endpoint, clock: Clock) -> None:
        self.label = label
        self._endpoint = endpoint
        self._clock = clock
        self._session: _Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    async def list_tools(self) -> list[Tool]:
        """Every tool it has. Raises ToolError."""
        session = self._current()
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await session.page(cursor)
            except (MCPError, ValidationError, ValueError) as error:
                raise ToolError(reason_of(error)) from error
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                self._failures = 0
                return tools
            if len(tools) > _MAX_LISTED:
                break
        raise ToolError("its list of tools has no end")

    async def call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> CallToolResult:
        """Make one call. Raises ToolError."""
        session_was_lost = False
        while True:
            client = await self._current().client()
            try:
                result = await self._send(client, name, arguments, timeout_s)
            except MCPError as error:
                # A server that was started anew does not know the session: it has executed nothing.
                if error.message != "Session terminated" or session_was_lost:
                    raise ToolError(reason_of(error)) from error
                session_was_lost = True
                self._drop()
            except (ValidationError, ValueError) as error:
                raise ToolError(reason_of(error)) from error
            else:
                self._failures = 0
                return result

    async def _send(
        self, client: Client, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> CallToolResult:
        # Not client.call_tool: it would list the tools after the first call, and fail a call that succeeded.
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        try:
            return await client.session.send_request(request, CallToolResult, timeout_s)
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        await self.list_tools()  # the session takes from it which arguments go into headers
        return await client.session.send_request(request, CallToolResult, timeout_s)

    async def aclose(self) -> None:
        """End the session, and the process behind it."""
        self._closed = True
        self._drop()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CLOSE_S)

    def _current(self) -> _Session:
        """The session, begun anew if it ended. Raises ToolError if that is too early."""
        session = self._session
        if session is None or session.ended:
            if self._closed:
                raise ToolError("it was closed")
            pause_s = self._not_before - self._clock.monotonic()
            if pause_s > 0:
                raise ToolError(f"it ended, and is not started again for another {pause_s:.1f} s")
            session = self._session = _Session(self._endpoint, self.label, self._on_end)
            self._tasks.add(session.task)
            session.task.add_done_callback(self._tasks.discard)
        return session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _on_end(self, session: _Session) -> None:
        if session is not self._session or self._closed:
            return
        self._failures += 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures - 1, 16))
        self._not_before = self._clock.monotonic() + pause_s
        log.warning("mcp_server_ended", server_label=self.label, failures=self._failures, pause_s=pause_s)


def reason_of(error: BaseException) -> str:
    """Half a sentence about the server, without arguments or secrets of ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolError):
        return error.message
    if isinstance(error, MCPError):
        if error.code == CONNECTION_CLOSED:
            return "it broke off the connection"
        if error.code == REQUEST_TIMEOUT:
            return "it did not answer in time"
        return error.message[:_MAX_REASON] or f"error {error.code}"
    if isinstance(error, ValidationError):
        return "its answer is not valid MCP"
    if isinstance(error, OSError):
        return f"it could not be started ({error.strerror or type(error).__name__})"
    return f"it failed ({type(error).__name__})"
