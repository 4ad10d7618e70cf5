"""What a run waits for before its first model call: observers of its start, and texts of context providers."""

from __future__ import annotations

from antiphon.hooks import ContextRequest, RunStarted
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.run import Run


async def tell_observers(parts: LoopParts, run: Run) -> None:
    """The started barrier: every observer of `run.started` is done, or its time is up. Raises HookError.

    Only before the first model call: who takes a run over in a later round does not start it once more.
    """
    if run.loop.round > 0 or run.loop.waiting or not parts.observers.await_starts:
        return
    state = run.state
    await parts.observers.started(
        RunStarted(
            run_id=run.id,
            tenant=state.tenant,
            principal=state.principal,
            agent=run.agent.name,
            source=run.agent.source,
            model=state.model,
            conversation=state.conversation_id,
            origin=state.origin,
            at=parts.clock.now(),
        )
    )


async def gather_context(parts: LoopParts, run: Run) -> None:
    """Ask the run's context providers for what the model is to read before the instructions. Raises HookError.

    The text lives in memory only; another process that goes on with the run asks them again.
    """
    # Of those it named, one may be gone where it is taken up again: that is a failure like others.
    asked = run.request.antiphon.context
    names = asked if asked is not None else parts.context.choose(None, run.agent.context)
    if not names or not run.model.charged:
        return
    state = run.state
    gathered = await parts.context.gather(
        tuple(dict.fromkeys(names)),
        ContextRequest(
            tenant=state.tenant,
            principal=state.principal,
            agent=run.agent.name,
            conversation=state.conversation_id,
            run_id=run.id,
            source=run.agent.source,
        ),
    )
    run.loop.injected = gathered.text
    if gathered.failures:
        parts.registry.note(state, event="run.updated", data={"context_failed": gathered.failed_names})
