"""The steps of one run, each of which can be called alone; `loop.py` puts them in order.

open_tools → run_approved → (compact) → infer → classify_round → execute_calls → wait_for_clients → finish_round
→ … → finish. The parent, the input and the first events come before: `preparing.py` and `opening.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace

import orjson
import structlog

from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.assembly.server_call import CallResult, ServerTool
from antiphon.core.checkpoint import Checkpoint, pack_item
from antiphon.core.history import encode_list, encoded_size, finished_output
from antiphon.core.rounds import Step, add_usage, classify, open_calls
from antiphon.core.steering import STEERED
from antiphon.core.tool_registry import Offered, ToolRegistry
from antiphon.core.usage_estimate import said_in
from antiphon.ports import ToolList
from antiphon.runs.counting import count_output
from antiphon.runs.loop.charging import charge, may_call
from antiphon.runs.loop.executing import append, ask, denied, make_calls, note_client_calls
from antiphon.runs.loop.model_calls import model_call
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.loop.streams import close
from antiphon.runs.run import Run

log = structlog.get_logger(__name__)

_COMPLETED = Outcome("completed")
_NOT_MADE = CallResult(error="The call was not made: the response before this one ended first.")


# Tools


async def open_tools(parts: LoopParts, run: Run) -> None:
    """Open the run's tools, show what MCP servers offer. A server that cannot be listed ends no run."""
    loop = run.loop
    lists: Sequence[ToolList] = ()
    declared = loop.declared
    if declared.server or declared.unasked or parts.toolbox.offers_unasked:
        tenant = run.principal.tenant
        loop.opened = await parts.toolbox.open(declared.server, tenant, declared.unasked, declared.scope)
        lists = loop.opened.lists
    for listing in lists:
        loop.executors |= {(tool.spec.server_label, tool.spec.name): tool for tool in listing.tools}
    loop.registry = ToolRegistry(loop.declared, offered(lists))
    run.assembler.server_tools = loop.registry.server
    if not run.assembler.items:
        for listing in lists:
            if listing.listed:
                _show_list(run, listing)
        append(parts, run, run.assembler.take())


def offered(lists: Sequence[ToolList]) -> list[Offered]:
    """The server's tools as a model gets to know them."""
    specs = [tool.spec for listing in lists for tool in listing.tools]
    return [
        Offered(
            ServerTool(spec.name, spec.server_label, spec.item_type, spec.needs_approval),
            spec.description,
            spec.parameters,
        )
        for spec in specs
    ]


def _show_list(run: Run, listing: ToolList) -> None:
    specs = [tool.spec for tool in listing.tools]
    tools = [
        {"name": spec.name, "description": spec.description, "input_schema": spec.parameters, "annotations": None}
        for spec in specs
    ]
    item = {"type": "mcp_list_tools", "server_label": listing.server_label, "tools": tools, "error": listing.error}
    end = "failed" if listing.error is not None else "completed"
    kind = "response.mcp_list_tools"
    run.assembler.add_item(item, f"{kind}.in_progress", f"{kind}.{end}", started={"tools": [], "error": None})


async def run_approved(parts: LoopParts, run: Run) -> None:
    """Make the calls that the response before this one asked to approve."""
    loop = run.loop
    if not loop.approvals:
        return
    results: dict[str, CallResult] = {}
    for approval in loop.approvals:
        call = approval.call
        tool = ServerTool(call.name, call.server_label)
        theirs = {
            "type": "function_call",
            "call_id": call.upstream_call_id or call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        }
        item = run.assembler.begin_call(tool, theirs, call.call_id)
        if not approval.approve:
            results[item.call_id or ""] = denied(approval.reason)
    await make_calls(parts, run, results)
    settle_approvals(run)
    run.assembler.begin_round()
    parts.journal.checkpoint(run.log, checkpoint(parts, run, waiting=False))


def settle_approvals(run: Run) -> None:
    """The model reads what the approved calls gave, and the input behind it.

    Also where the run ends before they were made: no call of the history may stay without its output.
    """
    loop = run.loop
    approvals, loop.approvals = loop.approvals, []
    if not approvals:
        return
    made = {item.approval_request_id: item.result for item in run.assembler.round_items}
    parts: list[bytes] = []
    for approval in approvals:
        result = made.get(approval.call.call_id) or _NOT_MADE
        call_id = approval.call.upstream_call_id or approval.call.call_id
        output = {"type": "function_call_output", "call_id": call_id, "output": result.for_model}
        parts.append(orjson.dumps(output))
    loop.context.append(b",".join(part for part in (*parts, loop.after_approvals) if part))


# Rounds


async def compact(parts: LoopParts, run: Run) -> Outcome | None:
    """Replace everything before the next model call by a shorter form of it; gives the end if it failed.

    Also where the run may make no further model call.
    """
    loop = run.loop
    if (refused := await may_call(parts, run)) is not None:
        return refused
    step = f"compaction:{loop.round + 1}"
    result = await parts.compactor.compact(
        run.model,
        encode_list(run.model_input()),
        run_id=run.id,
        tenant=run.principal.tenant,
        raw=run.asked,
        caller_token=run.create.caller_token,
        counted=lambda call, outcome, said: charge(parts, run, step, call, outcome, said),
    )
    loop.usage = add_usage(loop.usage, result.usage)
    if isinstance(result, Outcome):
        return result
    run.assembler.add_item(result.item, "response.compaction.compacting", started={"encrypted_content": ""})
    append(parts, run, run.assembler.take())
    run.assembler.begin_round()
    loop.compacted = result.context
    loop.context.clear()
    return None


def wants_compaction(parts: LoopParts, run: Run) -> bool:
    """Whether the next model call's input is over the request's threshold."""
    if not run.request.context_management:
        return False
    loop = run.loop
    context = encode_list(run.model_input())
    return parts.compactor.wanted(run.model, run.asked, context, loop.last_usage, loop.last_counted)


async def infer(parts: LoopParts, run: Run) -> Outcome:
    """One model call: its events go to the log as they come. Raises UpstreamError.

    A steer may cut it between two items. The stream of a call that ended by itself is left in `run.loop.stream`,
    to be closed when there is time. Where the run may make no further model call, it makes none and ends.
    However a call ends, it is charged.
    """
    loop = run.loop
    await let_finish(run)
    if (refused := await may_call(parts, run)) is not None:
        return refused
    await parts.journal.may_act(run.log)
    loop.round += 1
    loop.asked.clear()
    data = {"step": loop.round, "model": run.model.name}
    parts.registry.note(run.state, event="run.step.started", data=data, step=loop.round)
    history = run.model_input()
    call = model_call(parts, run, history)
    stream = run.model.upstream.stream(call)
    outcome: Outcome | None = None
    loop.activity = "model"
    try:
        outcome = await _consume(parts, run, stream)
    except BaseException:
        await close(stream)
        raise
    finally:
        loop.activity = ""
        charge(parts, run, loop.round, call, outcome, said_in(run.assembler.round_items))
    if outcome is run.assembler.outcome:
        loop.stream = stream
    else:
        await close(stream)
    loop.last_usage = outcome.usage
    if run.request.context_management:
        loop.last_counted = encoded_size(history)
    loop.usage = add_usage(loop.usage, outcome.usage)
    return outcome


async def _consume(parts: LoopParts, run: Run, stream: AsyncIterator[Sequence[bytes]]) -> Outcome:
    """Feed the stream to the log until the upstream said how it ended, or a steer cut it."""
    assembler, journal, run_log, holds = run.assembler, parts.journal, run.log, run.holds
    async for batch in stream:
        first = assembler.next_number
        try:
            events = assembler.feed(batch)
        except Exception:
            journal.append(
                run_log, assembler.take(), first
            )  # what was produced before a fault of ours is not lost
            raise
        asked = holds and ask(parts, run)
        if events:
            _show(parts, run, events, first)
        if asked and _is_whole(run):
            # They may be answered before the model is done; an answer that was taken must not be lost with the
            # run, as long as clients have seen nothing that is not in here.
            journal.checkpoint(run_log, checkpoint(parts, run, waiting=True))
        if assembler.outcome is not None:
            if assembler.dropped:
                log.debug("upstream_events_dropped", response_id=run.id, count=assembler.dropped)
            return assembler.outcome
        if run.steers.waiting and run.steerable_now:
            return STEERED
        if journal.holds_back(run_log):
            await journal.may_act(run_log)  # nobody sees what comes: it must not pile up either
    return failed("upstream_error", "The upstream ended the stream without saying how.", http_status=502)


def _show(parts: LoopParts, run: Run, events: list[bytes], first: int) -> None:
    """Append what the model said."""
    last = run.assembler.outcome is not None and not _goes_on(run)
    parts.journal.append(run.log, events, first, last=last)
    if not run.has_output and run.assembler.round_items:
        count_output(parts.counts, run, parts.clock.now())


def _is_whole(run: Run) -> bool:
    """Whether a round that ended here would lack nothing but answers of clients."""
    assembler = run.assembler
    return not assembler.has_open_items and not any(item.owner == "server" for item in assembler.round_items)


def _goes_on(run: Run) -> bool:
    """Whether the run may have more to do after this model call."""
    return run.holds or any(item.owner == "server" for item in run.assembler.round_items)


def classify_round(parts: LoopParts, run: Run, outcome: Outcome) -> Step:
    """What follows the round that ended with `outcome`."""
    step = classify(run.assembler.round_items, outcome, run.loop.round, parts.loop.max_rounds)
    if step == "client_action":
        note_client_calls(run)
    return step


async def execute_calls(parts: LoopParts, run: Run) -> None:
    """Make the round's calls of tools of the server, and show what they gave and all that waited for it."""
    await make_calls(parts, run, {})


async def wait_for_clients(parts: LoopParts, run: Run) -> None:
    """Wait until every open call of the round is answered; the answers follow in the order of the calls."""
    loop, assembler = run.loop, run.assembler
    parts.journal.checkpoint(run.log, checkpoint(parts, run, waiting=True))
    loop.activity = "clients"
    # The wait may be long: the model call's connection is given back meanwhile.
    finishing = asyncio.create_task(let_finish(run))
    try:
        await parts.held.until_answered(run)
    finally:
        finishing.cancel()
        loop.activity = ""
    answers = {answer.call_id: answer.item for answer in parts.held.take_answers(run)}
    results: dict[str, CallResult] = {}
    for item in open_calls(assembler.round_items):
        answer = answers.get(item.call_id or "")
        if item.tool is not None:
            answer = answer or {}
            call = assembler.begin_call(item.tool, item.for_model(), item.id)
            if answer.get("approve") is not True:
                results[call.call_id or ""] = denied(answer.get("reason"))
        elif answer is not None:
            assembler.add_output(item, answer)
        else:
            name = str(item.upstream.get("name"))[:80]
            error = f"error: there is no tool named {name!r}"
            assembler.add_output(item, {"type": f"{item.type}_output", "output": error})
    await make_calls(parts, run, results)


def finish_round(parts: LoopParts, run: Run) -> None:
    """Everything the round said and got goes into the context of the next one."""
    loop = run.loop
    context, _ = finished_output(run.assembler.round_items, _COMPLETED)
    loop.context.append(context)
    run.assembler.begin_round()
    loop.waiting = False
    loop.takeovers = 0
    parts.journal.checkpoint(run.log, checkpoint(parts, run, waiting=False))


async def finish(parts: LoopParts, run: Run, outcome: Outcome) -> None:
    """Decide the end, make it durable, then show the terminal event. Never raises for a store that is away."""
    run.phase = "ending"  # a cancel from here on comes too late
    parts.held.close(run)
    settle_approvals(run)
    await parts.ender.end(run, replace(outcome, usage=run.loop.usage))


async def suspend(parts: LoopParts, run: Run, *, waiting: bool) -> None:
    """This process stops in order while the run waits for its clients, or between two rounds: another one goes on.

    Raises StorageError, RunLost.
    """
    parts.held.close(run)
    parts.journal.checkpoint(run.log, checkpoint(parts, run, waiting=waiting, clean=True))
    await parts.journal.release(run.log)


def checkpoint(parts: LoopParts, run: Run, *, waiting: bool, clean: bool = False) -> bytes | None:
    """The run as another process could go on with it; None if none could."""
    if not run.stored or not run.resumable:
        return None
    loop = run.loop
    items = run.assembler.round_items if waiting else []
    return Checkpoint(
        round=loop.round,
        waiting=waiting,
        context=b",".join(part for part in loop.context if part).decode(),
        usage=loop.usage,
        spent=asdict(loop.spent),
        recent=[sorted(seen) for seen in loop.recent or ()],
        compacted=loop.compacted.decode() if loop.compacted is not None else None,
        first=len(run.assembler.items) - len(run.assembler.round_items),
        items=[pack_item(item) for item in items],
        held=parts.held.snapshot(run),
        steers=run.steers.snapshot(),
        calls_made=loop.calls_made,
        clean=clean,
        takeovers=loop.takeovers,
    ).encode()


async def let_finish(run: Run) -> None:
    """Close the stream of the last model call, which has said how it ended; its connection can be used again."""
    stream, run.loop.stream = run.loop.stream, None
    if stream is not None:
        await close(stream)
