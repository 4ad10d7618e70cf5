"""MCP over the standard streams of a child process.

The SDK's own client of this kind reads lines without a bound and copies the whole line for each piece that comes
in; an answer of 50 MB would stop our loop for many seconds.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError
from mcp_types.jsonrpc import jsonrpc_message_adapter

from antiphon.tools.mcp_stderr import StderrLines

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams as Streams

_EXIT_S = 1.0
"""For leaving after its input was closed, and again after SIGTERM."""

_LAST_WORDS_S = 0.25
_STDERR_BYTES = 16 * 1024

_ID_AHEAD = re.compile(rb'^\s*\{[^{}\[\]]*?"id"\s*:\s*(\d{1,18})\s*[,}]')
_ID_BEHIND = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_EDGE_BYTES = 256

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class StdioEndpoint:
    """A program that is an MCP server. environment: what it gets beside PATH, HOME and the like."""

    def __init__(
        self, label: str, command: str, args: Sequence[str], environment: Mapping[str, str], max_bytes: int
    ) -> None:
        self._label = label
        self._command = command
        self._args = tuple(args)
        self._environment = dict(environment)
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"StdioEndpoint({self._command!r})"

    @asynccontextmanager
    async def connect(self, ended: Callable[[], None]) -> AsyncGenerator[Streams]:
        """Start it and give its streams. ended: called when it is gone. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            self._command,
            *self._args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**get_default_environment(), **self._environment},
            limit=self._max_bytes,
            start_new_session=sys.platform != "win32",
        )
        silent = asyncio.Event()
        incoming, reader = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writer, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            try:
                await _read(process, incoming, self._max_bytes)
            finally:
                ended()

        async def read_stderr() -> None:
            try:
                await _log_stderr(process, StderrLines(self._label))
            finally:
                silent.set()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(_write, process, outgoing)
            group.start_soon(read_stderr)
            try:
                yield reader, writer
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process, silent)
                group.cancel_scope.cancel()
                for stream in (incoming, reader, writer, outgoing):
                    stream.close()


async def _read(process: Process, incoming: Incoming, max_bytes: int) -> None:
    assert process.stdout is not None
    async with incoming:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                try:
                    line = await process.stdout.readuntil(b"\n")
                except asyncio.LimitOverrunError as overrun:
                    answered = await _skip_line(process.stdout, overrun.consumed)
                    if answered is None:
                        return  # nobody can be told; the end of the session tells everybody
                    await incoming.send(_too_large(answered, max_bytes))
                    continue
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # programs print what they like; what is no message is not for us
                await incoming.send(SessionMessage(message))


async def _skip_line(stdout: asyncio.StreamReader, consumed: int) -> int | None:
    """Read to the end of a line that is too long, keeping nothing; gives the id of the request it answers."""
    ahead = b""
    behind = b""
    while True:
        piece = await stdout.read(max(consumed, 1))
        ahead = ahead or piece[:_EDGE_BYTES]
        behind = piece[-_EDGE_BYTES:]
        try:
            rest = await stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as overrun:
            consumed = overrun.consumed
            continue
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        behind = (behind + rest[-_EDGE_BYTES:])[-_EDGE_BYTES:]
        found = _ID_AHEAD.search(ahead) or _ID_BEHIND.search(behind)
        return int(found[1]) if found else None


def _too_large(request_id: int, max_bytes: int) -> SessionMessage:
    error = ErrorData(code=INTERNAL_ERROR, message=f"its answer is larger than {max_bytes} bytes")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


async def _write(process: Process, outgoing: Outgoing) -> None:
    assert process.stdin is not None
    async with outgoing:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            except (ConnectionError, RuntimeError):
                return  # its output ends too, and that is what counts


async def _log_stderr(process: Process, lines: StderrLines) -> None:
    assert process.stderr is not None
    with suppress(ConnectionError):
        while piece := await process.stderr.read(_STDERR_BYTES):
            lines.feed(piece, time.monotonic())
    lines.close()


async def _end(process: Process, silent: asyncio.Event) -> None:
    """Close its input, ask it to leave, kill it: the whole group, within twice `_EXIT_S`.

    silent: set when all of its standard error was read, where its last words are.
    """
    assert process.stdin is not None
    with suppress(ConnectionError, RuntimeError):
        process.stdin.close()
    if not await _left(process):
        _signal(process, signal.SIGTERM)
        if not await _left(process):
            _signal(process, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
            await _left(process)
    with anyio.move_on_after(_LAST_WORDS_S):
        await silent.wait()
    # A descendant may hold the pipe open; asyncio gives no public way to close our end of it.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _left(process: Process) -> bool:
    # Not process.wait(): that waits for the pipes too, which a descendant may hold open.
    with anyio.move_on_after(_EXIT_S):
        while process.returncode is None:  # noqa: ASYNC110 (nothing else tells)
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)
