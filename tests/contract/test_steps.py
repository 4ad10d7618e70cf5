"""A turn without the server: the steps of `runs/loop/steps.py` called one by one, on a database of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.bus.memory import memory_bus
from antiphon.clock import RandomIds, SystemClock
from antiphon.core.create_request import parse_create
from antiphon.core.principal import LOCAL
from antiphon.governance.accounts import Accounts
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.memory_ledger import MemoryLedger
from antiphon.governance.hooks.build import build_hooks
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.feed.source import OwnRuns
from antiphon.ops.feed.views import FeedViews
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.registry import RunRegistry
from antiphon.ports import ModelCall
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.engine import Engine
from antiphon.runs.loop import steps
from antiphon.runs.run import Create, Run
from antiphon.tools.build import build_toolbox
from antiphon.tools.http_context import HttpContexts
from antiphon.upstream.router import UpstreamRouter
from tests.contract.playing import LOOK, call, keyed, pairs, says, types
from tests.store.database import Database, database
from tests.support.gap_checker import check_run
from tests.support.server import test_settings

MODEL = "antiphon/echo"
DONE = says(("text", "done"))


class Scripted:
    """An upstream in this process: the next answer for each call, and what it was asked."""

    name = "scripted"
    tools = ()

    def __init__(self, *answers: list[bytes]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        self.bodies.append(orjson.loads(call.body))
        yield self.answers.pop(0)

    async def models(self) -> Sequence[str]:
        return [MODEL]

    async def aclose(self) -> None:
        """Nothing is held."""


class Turns:
    """Turns by hand. parts, upstream: what the steps work with."""

    def __init__(self, engine: Engine, upstream: Scripted, db: Database) -> None:
        self.parts, self.upstream, self.db = engine.parts, upstream, db
        self._engine = engine

    async def begin(self, input: Any = "go", **fields: Any) -> Run:
        """Rehydrate, create: a run that shows its first events and has its row."""
        raw = {"model": MODEL, "input": input, **fields}
        create = Create(parse_create(raw), raw, "python")
        run_id = RandomIds().mint("resp")
        prepared = await self._engine.pipeline.prepare(run_id, create, LOCAL, None)
        run = self._engine.opener.open(LOCAL, prepared, run_id)
        self._engine.opener.write_row(run, prepared, None)
        self.parts.registry.start(run.state)
        self.parts.registry.change(run.state, "running", event="run.started", step=1)
        await steps.open_tools(self.parts, run)
        return run

    async def stored(self, run: Run) -> list[Any]:
        """The events in the database."""
        first, events = await self.db.reader.events(run.id, -1, 1 << 20)
        assert first == 0
        return [orjson.loads(event) for event in events]

    async def row(self, run: Run) -> dict[str, Any]:
        row = await self.db.reader.find(run.id)
        assert row is not None
        return dict(orjson.loads(row.response))


@contextlib.asynccontextmanager
async def turns(folder: Path, *answers: list[bytes], **settings: Any) -> AsyncIterator[Turns]:
    settings_ = test_settings(folder, tool=(keyed("do"),), **settings)
    clock = SystemClock()
    upstream = Scripted(*answers)
    sealer = Sealer("x" * 32, folder / "unused")
    sealer.load()
    async with database(folder) as db:
        toolbox = build_toolbox(settings_, clock)
        journal = SqliteJournal(db.writer, db.reader, settings_.journal)
        bus = memory_bus("node", clock)
        limits, counted = Limits(settings_), WriteBehind(db.writer, tell_repeats=True)
        lifecycle = Lifecycle("a" * 16, clock)
        registry = RunRegistry(lifecycle, clock)
        engine = Engine(
            settings=settings_,
            clock=clock,
            ids=RandomIds(),
            reader=db.reader,
            writer=db.writer,
            journal=journal,
            bus=bus,
            registry=registry,
            router=UpstreamRouter([], {MODEL: upstream}, clock),
            toolbox=toolbox,
            sealer=sealer,
            hooks=build_hooks(settings_, HttpContexts()),
            accounts=Accounts(
                settings=settings_,
                limits=limits,
                ledger=MemoryLedger(limits, counted),
                rows=counted,
                writer=db.writer,
                reader=db.reader,
                bus=bus,
                clock=clock,
                ids=RandomIds(),
            ),
            feeds=FeedViews(OwnRuns(lifecycle, registry), clock),
        )
        try:
            yield Turns(engine, upstream, db)
        finally:
            await toolbox.aclose()
            await journal.aclose()


async def test_a_turn_of_two_rounds_is_rehydrated_run_stored_and_ended_step_by_step(tmp_path: Path) -> None:
    first = says(("text", "t"), call("do", "c", key="s-turn"))
    async with turns(tmp_path, first, DONE, DONE) as t:
        run = await t.begin("hello")
        assert types(await _shown(run)) == ["created", "in_progress"]

        outcome = await steps.infer(t.parts, run)
        assert (outcome.status, steps.classify_round(t.parts, run, outcome)) == ("completed", "continue")
        assert [item.owner for item in run.assembler.round_items] == ["nobody", "server"]

        await steps.execute_calls(t.parts, run)
        assert run.assembler.round_items[1].result is not None
        steps.finish_round(t.parts, run)
        assert run.assembler.round_items == []

        outcome = await steps.infer(t.parts, run)
        assert steps.classify_round(t.parts, run, outcome) == "done"
        assert pairs(t.upstream.bodies[1]["input"]) == [("call", "c"), ("output", "c")]

        ended: list[bool] = []
        run.log.listen(lambda batch: ended.append(run.turn is not None))
        await steps.finish(t.parts, run, outcome)
        await steps.let_finish(run)
        events = await t.stored(run)
        assert check_run(events).terminal == await t.row(run)
        assert types(events[-1]["response"]["output"]) == ["message", "mcp_call", "message"]
        assert ended == [True], "when the terminal is shown, the turn can be continued"

        second = await t.begin("on", previous_response_id=run.id)
        await steps.infer(t.parts, second)
        assert len(pairs(t.upstream.bodies[2]["input"])) == 2
        await steps.finish(t.parts, second, outcome)


async def _shown(run: Run) -> list[Any]:
    return [orjson.loads(event) for event in run.log.since(0)]


async def test_a_round_with_calls_of_clients_asks_for_them(tmp_path: Path) -> None:
    async with turns(tmp_path, says(call("look"), call("do", key="s-client"))) as t:
        run = await t.begin(tools=[LOOK])
        outcome = await steps.infer(t.parts, run)
        assert steps.classify_round(t.parts, run, outcome) == "client_action"
        await steps.execute_calls(t.parts, run)
        await steps.finish(t.parts, run, outcome)
        assert run.turn is not None
        assert [open_call.name for open_call in run.turn.open_calls] == ["look"]


async def test_the_last_allowed_round_is_told_apart(tmp_path: Path) -> None:
    async with turns(tmp_path, says(call("do", key="s-last")), loop={"max_rounds": 1}) as t:
        run = await t.begin()
        outcome = await steps.infer(t.parts, run)
        assert steps.classify_round(t.parts, run, outcome) == "incomplete"
        await steps.finish(t.parts, run, outcome)


@pytest.mark.parametrize("waiting", [True, False])
async def test_a_checkpoint_is_made_for_what_another_process_could_go_on_with_only(
    tmp_path: Path, waiting: bool
) -> None:
    async with turns(tmp_path, DONE, DONE) as t:
        for store in (True, False):
            run = await t.begin(store=store)
            outcome = await steps.infer(t.parts, run)
            payload = steps.checkpoint(t.parts, run, waiting=waiting)
            assert (payload is not None) == store
            await steps.finish(t.parts, run, outcome)
