"""Carries out a round's calls of the server's own tools: bounded, and answered in the order of the calls."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from antiphon.core.json_input import mend_text
from antiphon.errors import ToolError
from antiphon.ports import Tool, ToolContext, ToolOutput, ToolSpec
from antiphon.settings.tools import OWN_LABEL
from antiphon.tools.schemas import parse_arguments

log = structlog.get_logger(__name__)

_GRACE_S = 0.25
"""What a stopped call gets to let go of its connections. One that does not stop is left alone after it."""

_MAX_ERROR = 4000
_abandoned: set[asyncio.Task[ToolOutput]] = set()
"""Calls that did not stop when told to; kept here, else the loop would drop them in mid-air."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """arguments: JSON text as the model wrote it."""

    call_id: str
    tool: Tool
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a call ended: exactly one of `output` and `error` is there.

    action: always there for a `web_search_call`, also when it failed.
    """

    call_id: str
    output: str | None
    error: str | None
    action: Mapping[str, Any] | None
    duration_ms: int


async def execute(
    calls: Sequence[ToolCall],
    context_for: Callable[[str], ToolContext],
    *,
    fan_out: int,
    on_done: Callable[[ToolResult], None] | None = None,
) -> list[ToolResult]:
    """Results in the order of the calls. Never raises for a tool: its failure is its result.

    fan_out: calls that run at the same time. on_done: told of each result as it comes.
    Cancelling it stops all calls.
    """
    gate = asyncio.Semaphore(fan_out)

    async def one(call: ToolCall) -> ToolResult:
        async with gate:
            result = await _execute_one(call, context_for(call.call_id))
        if on_done is not None:
            on_done(result)
        return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in calls]
    return [task.result() for task in tasks]


async def _execute_one(call: ToolCall, context: ToolContext) -> ToolResult:
    spec = call.tool.spec
    begun = time.perf_counter()
    output: str | None = None
    error: str | None = None
    arguments: dict[str, Any] = {}
    action: Mapping[str, Any] | None = None
    try:
        ours = spec.server_label == OWN_LABEL
        arguments = await parse_arguments(call.arguments, spec.parameters, patterns=ours)
        made = await _bounded(call.tool, arguments, context)
        output, action = _within_limit(spec, made.text), made.action
    except ToolError as failure:
        error = mend_text(failure.message)[:_MAX_ERROR]
    except Exception as failure:
        # Its text may hold arguments or secrets: neither the model nor the log gets it.
        error = f"The tool failed ({type(failure).__name__})."
        log.warning("tool_crashed", tool=spec.name, call_id=call.call_id, **_whereabouts(failure))
    if action is None and spec.item_type == "web_search_call":
        action = {"type": "search", "query": mend_text(str(arguments.get("query", "")))}
    duration_ms = round((time.perf_counter() - begun) * 1000)
    log.info(
        "tool_called",
        tool=spec.name,
        server_label=spec.server_label,
        response_id=context.run_id,
        call_id=call.call_id,
        ok=error is None,
        duration_ms=duration_ms,
        arguments_chars=len(call.arguments),
        output_chars=len(output or ""),
    )
    return ToolResult(call.call_id, output, error, action, duration_ms)


async def _bounded(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
    """The call with its timeout, in a task of its own: one that ignores being cancelled holds up nobody."""
    task = asyncio.create_task(tool.call(arguments, context))
    try:
        done, _ = await asyncio.wait({task}, timeout=tool.spec.timeout_s)
    except asyncio.CancelledError:
        await _stop(task, tool.spec, context)
        raise
    if not done:
        await _stop(task, tool.spec, context)
        raise ToolError(f"The tool did not answer within {tool.spec.timeout_s:g} s.")
    if task.cancelled():
        raise ToolError("The call was broken off.")
    return task.result()


async def _stop(task: asyncio.Task[ToolOutput], spec: ToolSpec, context: ToolContext) -> None:
    task.cancel()
    task.add_done_callback(_forget)
    _abandoned.add(task)
    await asyncio.wait({task}, timeout=_GRACE_S)
    if not task.done():
        log.warning("tool_call_does_not_stop", tool=spec.name, call_id=context.call_id)


def _forget(task: asyncio.Task[ToolOutput]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


def _within_limit(spec: ToolSpec, text: str) -> str:
    limit = spec.max_output_bytes
    mended = mend_text(text) if len(text) <= limit else text
    if len(mended) > limit or len(mended.encode()) > limit:
        raise ToolError(f"The output is larger than {limit} bytes, the limit of this tool.")
    return mended


def _whereabouts(failure: BaseException) -> dict[str, str]:
    frames = traceback.extract_tb(failure.__traceback__)
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return {"error": type(failure).__name__, "at": at}
