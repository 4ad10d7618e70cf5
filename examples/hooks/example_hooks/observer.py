"""Observer: a line per run in a file, from its start to what it cost. No run waits for the end of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from antiphon.hooks import RunEnded, RunStarted, Subscriptions


def keep_ledger(subscriptions: Subscriptions, path: str) -> None:
    """path: of the file, one JSON object per line."""
    file, turn = Path(path), asyncio.Lock()

    async def write(**line: Any) -> None:
        async with turn:
            await asyncio.to_thread(_append, file, json.dumps(line) + "\n")

    async def started(run: RunStarted) -> None:
        """The run waits for this: its first model call comes after the line."""
        await write(run=run.run_id, tenant=run.tenant, agent=run.agent, model=run.model, state="started")

    async def ended(run: RunEnded) -> None:
        tokens = run.usage["total_tokens"] if run.usage else 0
        await write(run=run.run_id, tenant=run.tenant, state=run.status, tokens=tokens, cost=run.cost)

    subscriptions.on("run.started", started)
    for end in ("run.completed", "run.incomplete", "run.failed", "run.cancelled"):
        subscriptions.on(end, ended)


def _append(file: Path, line: str) -> None:
    with file.open("a") as ledger:
        ledger.write(line)
