"""The calls of a round: those the server makes, and those it asks clients for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.server_call import CallResult
from antiphon.core.rounds import open_calls, server_calls
from antiphon.ports import ToolContext
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.run import Run
from antiphon.tools.execution import ToolCall, ToolResult, execute

log = structlog.get_logger(__name__)


async def make_calls(parts: LoopParts, run: Run, results: dict[str, CallResult]) -> None:
    """Make the calls that have no result yet, then show all of them. Raises StorageError.

    A tool with side effects runs only when its call is durable: whoever finds the run later sees that it began.
    """
    assembler, loop = run.assembler, run.loop
    append(parts, run, assembler.take())
    calls: list[ToolCall] = []
    limit = run.request.max_tool_calls
    for item in server_calls(assembler.round_items):
        assert item.tool is not None and item.call_id is not None
        if item.call_id in results:
            continue
        tool = loop.executors.get((item.tool.server_label, item.tool.name))
        if tool is None:
            results[item.call_id] = CallResult(error=f"The tool {item.tool.name!r} is not offered any more.")
        elif limit is not None and loop.calls_made >= limit:
            results[item.call_id] = CallResult(error=f"The limit of {limit} tool calls is reached.")
        else:
            loop.calls_made += 1
            calls.append(ToolCall(item.call_id, tool, item.arguments))
    if calls:
        results |= await _make(parts, run, calls)
    events = assembler.complete_calls(results)
    if run.holds:
        ask(parts, run)
    append(parts, run, events)


async def _make(parts: LoopParts, run: Run, calls: list[ToolCall]) -> Mapping[str, CallResult]:
    registry, state = parts.registry, run.state
    if run.stored and any(call.tool.spec.side_effects for call in calls):
        await parts.journal.flush(run.log)
    await parts.journal.may_act(run.log)
    names = {call.call_id: call.tool.spec.name for call in calls}
    running = dict(names)
    for call_id, name in names.items():
        data = {"call_id": call_id, "name": name, "owner": "server"}
        registry.change(state, event="run.tool.called", data=data, current_tool=name)

    def done(result: ToolResult) -> None:
        running.pop(result.call_id, None)
        data = {
            "call_id": result.call_id,
            "name": names[result.call_id],
            "owner": "server",
            "ok": result.error is None,
            "duration_ms": result.duration_ms,
        }
        current = next(iter(running.values()), None)
        registry.change(state, event="run.tool.resolved", data=data, current_tool=current)

    def context_for(call_id: str) -> ToolContext:
        trace = parts.tracing.of_tool(run.id, call_id) if parts.tracing is not None else {}
        return ToolContext(run.principal.tenant, run.principal.id, run.id, call_id, trace)

    run.loop.activity = "tools"
    try:
        made = await execute(calls, context_for, fan_out=parts.tools.fan_out, on_done=done)
    finally:
        run.loop.activity = ""
    return {result.call_id: CallResult(result.output, result.error, result.action) for result in made}


def ask(parts: LoopParts, run: Run) -> bool:
    """Calls of clients that are complete and shown from now on wait for their answers (hold mode).

    Gives whether there are new ones.
    """
    asked, assembler = run.loop.asked, run.assembler
    new = [
        item
        for item in open_calls(assembler.round_items)
        if item.owner != "server"
        and item.call_id not in asked
        and assembler.is_shown(item)
        and _is_known(run, item)
    ]
    if new:
        asked.update(item.call_id for item in new if item.call_id is not None)
        shown = [item.view(item.status) for item in new]
        parts.held.open(run, shown, side_effects=run.request.antiphon.side_effects)
    return bool(new)


def note_client_calls(run: Run) -> None:
    """One line for each call that a client has to answer: its size, never what it says."""
    for item in open_calls(run.assembler.round_items):
        if item.owner != "server":
            log.info(
                "client_call",
                response_id=run.id,
                call_id=item.call_id,
                type=item.type,
                chars=sum(len(text.split.text) for text in item.texts.values()),
            )


def append(parts: LoopParts, run: Run, events: Sequence[bytes]) -> None:
    """Append events that the assembler has just numbered."""
    if events:
        parts.journal.append(run.log, list(events), run.log.head + 1)


def denied(reason: Any) -> CallResult:
    """What the model reads of a call that was not approved."""
    return CallResult(error="The call was not approved" + (f": {reason}" if reason else "."))


def _is_known(run: Run, item: OpenItem) -> bool:
    """Whether somebody registered the tool; a call nobody can answer is not waited for."""
    if item.tool is not None or item.type not in ("function_call", "custom_tool_call"):
        return True
    namespace = item.upstream.get("namespace")
    name = item.upstream.get("name")
    return run.loop.registry.knows(namespace if isinstance(namespace, str) else None, str(name))
