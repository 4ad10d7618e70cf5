"""Short ways to run tools in tests: toolboxes, MCP servers, one call. Every wait is bounded."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.ports import OpenTools, Tool, ToolContext, ToolOutput, ToolSpec
from antiphon.settings import Settings
from antiphon.tools.addresses import Resolver, resolve_name
from antiphon.tools.build import build_toolbox
from antiphon.tools.execution import ToolCall, ToolResult, execute
from antiphon.tools.toolbox import ServerTools
from tests.support.forked import SERVER
from tests.upstream.calling import FastClock

WAIT_S = 40
PROGRAM = str(Path(__file__).with_name("mcp_program.py"))
ANY: dict[str, Any] = {"type": "object"}


def context_for(call_id: str) -> ToolContext:
    return ToolContext(tenant="acme", principal="user:ann", run_id="resp_1", call_id=call_id)


def notes_of(path: Path, word: str) -> list[str]:
    """What the program noted under this word."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == word]


def headers_seen(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in notes_of(path, "http")]


async def until(condition: Any, what: str) -> None:
    """Wait for something outside of this process."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 (another process tells nobody)
            await asyncio.sleep(0.01)
    assert condition(), what


async def call(tool: Tool, arguments: Any = None, call_id: str = "call_1") -> ToolResult:
    """One call, with arguments as text or as what will be text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    async with asyncio.timeout(WAIT_S):
        (result,) = await execute([ToolCall(call_id, tool, text)], context_for, fan_out=1)
    return result


@asynccontextmanager
async def toolbox(
    *, clock: Any = None, resolve: Resolver = resolve_name, **settings: Any
) -> AsyncGenerator[ServerTools]:
    """The toolbox of a configuration."""
    box = build_toolbox(Settings(**settings), clock or FastClock(), resolve=resolve)
    assert isinstance(box, ServerTools)
    try:
        yield box
    finally:
        async with asyncio.timeout(WAIT_S):
            await box.aclose()


@asynccontextmanager
async def opened(
    box: ServerTools, *declared: Mapping[str, Any], tenant: str = "acme", always: Sequence[str] = ()
) -> AsyncGenerator[OpenTools]:
    """The tools of a run."""
    async with asyncio.timeout(WAIT_S):
        tools = await box.open(declared, tenant, always)
    try:
        yield tools
    finally:
        await tools.aclose()


def named(tools: OpenTools) -> dict[str, Tool]:
    """All tools of a run by name."""
    return {tool.spec.name: tool for one in tools.lists for tool in one.tools}


def stdio(notes: Path, *options: str, **more: Any) -> dict[str, Any]:
    """A `[[tool]]` table of the program over stdio."""
    args = [PROGRAM, "stdio", str(notes), *options]
    return {"name": "program", "kind": "mcp", "command": sys.executable, "args": args, **more}


@asynccontextmanager
async def http_program(notes: Path, *options: str) -> AsyncGenerator[int]:
    """The program over streamable HTTP; gives its port."""
    with tempfile.TemporaryFile() as errors:
        process = await SERVER.start([PROGRAM, "http", str(notes), *options], os.environ, errors)
    try:
        async with asyncio.timeout(WAIT_S):
            yield int(await process.line())
    finally:
        async with asyncio.timeout(WAIT_S):
            process.kill()
            await process.wait()
        process.close()


class FakeTool:
    """A tool that does what a test says. do: a coroutine function of (arguments, context)."""

    def __init__(self, do: Any, name: str = "fake", **spec: Any) -> None:
        self.spec = ToolSpec(name=name, description="", parameters=spec.pop("parameters", ANY), **spec)
        self._do = do

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        made = await self._do(arguments, context)
        return made if isinstance(made, ToolOutput) else ToolOutput(made)
