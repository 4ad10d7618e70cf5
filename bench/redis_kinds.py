"""What each kind of work that nodes give to Redis costs it, done by the server's own code, one after another."""

import asyncio
import functools
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from redis_engine import CLOCK, Engine, nodes
from redis_work import TENANT, TOKEN, admitted, append, live_run, state_of, terms_of, whole_run

from antiphon.bus.node_watch import LOOKS_PER_LEASE
from antiphon.bus.redis import keys
from antiphon.bus.redis.bus import RedisBus
from antiphon.clock import RandomIds
from antiphon.core.cursor import BEFORE_FIRST
from antiphon.core.feed_progress import Progress
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.redis_ledger import RedisLedger
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.journal.redis.journal import RedisJournal
from antiphon.journal.redis.live import Live, Terms
from antiphon.journal.redis.reading import LogReader
from antiphon.ops.feed.shared import SharedRuns
from antiphon.ops.feed_redis import RedisFeed
from antiphon.ops.lifecycle import Lifecycle
from antiphon.settings import Settings
from antiphon.store.opening import open_store

RUNS = 20
"""Live runs of the one node whose appends are measured: about what one exchange of a busy node holds."""
EVENTS = 10
FEED_ENTRIES_AT_ONCE = 20
PROGRESS_RUNS = 100
LISTENERS = 4
"""Nodes that follow each of the followed runs, or have a dashboard of the tenant `WATCHED`."""
WATCHED = "watched"
LOOKS_OF_ALIVE = 2
"""Looks at all nodes in one call of `RedisBus.alive`."""
TURNS_AT_ONCE = 10
PAGE_EVENTS = 200
_PAGE_BYTES = 1024 * 1024
_WAIT_S = 60.0
Costs = dict[str, float]
Work = Callable[[], Awaitable[object]]


class Kinds:
    """window_s: of each measure. rounds: how often the measures that are compared with each other take turns."""

    def __init__(
        self, engine: Engine, folder: Path, *, window_s: float, rounds: int, node_counts: tuple[int, int]
    ):
        self._engine = engine
        self._window_s = window_s
        self._rounds = rounds
        self._node_counts = node_counts
        tiers = {"pro": {"requests_per_month": 10**9, "tokens_per_month": 10**12, "concurrent_runs": 10**6}}
        self._settings = Settings(data_dir=folder, tiers=tiers)

    async def measure(self) -> Costs:
        """All kinds: µs of the thread that executes commands, or bytes. What is a difference, and below zero by
        noise, is zero."""
        found: Costs = {}
        for kind in (self._appends, self._feed, self._turns, self._attaches, self._memory, self._upkeep):
            self._engine.empty()
            found |= {name: max(0.0, cost) for name, cost in (await kind()).items()}
        return found

    # Appends, and what followers add

    async def _appends(self) -> Costs:
        """exchange: one more pipeline. append: one more call, with one event. event: one more event in a call.
        hint: telling one follower of a call."""
        async with nodes(self._engine, 1 + LISTENERS, self._settings) as (owner, *followers):
            terms = self._terms(owner)
            runs, followed = ([live_run(f"{kind}_{number}") for number in range(RUNS)] for kind in ("run", "seen"))
            for bus in followers:
                for run in followed:
                    await bus.subscribe(keys.run_hint(run.run_id), _unheard)

            def appends(of: Sequence[Live], events: int) -> Work:
                return lambda: append(owner, of, events, terms)

            for of in (runs, followed):
                await append(owner, of, 1, terms)
            one_us, several_us, batches_us, followed_us = await self._in_turns(
                [appends(runs[:1], 1), appends(runs, 1), appends(runs, EVENTS), appends(followed, 1)]
            )
        append_us = (several_us - one_us) / (RUNS - 1)
        return {
            "exchange_us": one_us - append_us,
            "append_us": append_us,
            "event_us": (batches_us - several_us) / (RUNS * (EVENTS - 1)),
            "hint_us": (followed_us - several_us) / RUNS / LISTENERS,
        }

    # The lifecycle feed

    async def _feed(self) -> Costs:
        """entry: one entry of the feed. progress: what a node says each second of `PROGRESS_RUNS` runs that speak.
        told: telling either to one node that shows it."""
        async with nodes(self._engine, 1 + LISTENERS, self._settings) as (writer, *watching):
            feed = RedisFeed(lambda: writer.commands, RandomIds(), CLOCK)
            lifecycle, shown = Lifecycle(TOKEN, CLOCK), SharedRuns(feed.reading, writer)
            lifecycle.observe(feed.publish)
            feed.start()
            numbers = itertools.count()
            for bus in watching:
                await bus.subscribe(keys.lifecycle_channel(WATCHED), _unheard)
                await bus.subscribe(keys.progress_channel(WATCHED), _unheard)

            async def entries(tenant: str) -> None:
                for _ in range(FEED_ENTRIES_AT_ONCE // 2):
                    state = state_of(f"told_{next(numbers)}", tenant)
                    lifecycle.record("run.created", state)
                    state.state = "completed"
                    lifecycle.record("run.completed", state)
                await until(lambda: feed.waiting_bytes == 0)

            def progress(tenant: str) -> Work:
                ids = (f"resp_{number:032}" for number in range(PROGRESS_RUNS))
                moved = [Progress(tenant, run_id, head=1000, output_tokens=950) for run_id in ids]
                return lambda: shown.tell_progress(moved)

            both = (TENANT, WATCHED)
            for tenant in both:
                await entries(tenant)
            works: list[Work] = [functools.partial(entries, tenant) for tenant in both]
            works += [progress(tenant) for tenant in both]
            entries_us, entries_told_us, progress_us, progress_told_us = await self._in_turns(works)
            await feed.aclose()
        return {
            "feed_entry_us": entries_us / FEED_ENTRIES_AT_ONCE,
            "feed_told_us": (entries_told_us - entries_us) / FEED_ENTRIES_AT_ONCE / LISTENERS,
            "progress_us": progress_us,
            "progress_told_us": (progress_told_us - progress_us) / LISTENERS,
        }

    # Turns

    async def _turns(self) -> Costs:
        """run: begin and end of a stored run with one event, its row in SQLite. admission: its reservation, its
        commit, the charge of one call of a model, and its end."""
        store = open_store(self._settings)
        await store.prepare()
        store.writer.start()
        numbers = itertools.count()
        try:
            async with nodes(self._engine, 1, self._settings) as (bus,):
                journal = RedisJournal(bus, store.writer, store.reader, self._settings, CLOCK, RandomIds())
                rows = WriteBehind(store.writer, tell_repeats=False)
                limits = Limits(self._settings)
                ledger = RedisLedger(lambda: bus.commands, limits, rows, CLOCK)
                journal.start()
                ledger.start()

                async def runs() -> None:
                    ids = [f"turn_{next(numbers)}" for _ in range(TURNS_AT_ONCE)]
                    await asyncio.gather(*(whole_run(journal, run_id) for run_id in ids))

                async def admissions() -> None:
                    ids = [f"turn_{next(numbers)}" for _ in range(TURNS_AT_ONCE)]
                    await asyncio.gather(*(admitted(ledger, limits, run_id) for run_id in ids))
                    await ledger.flush()

                await runs()
                await admissions()
                runs_us, admissions_us = await self._in_turns([runs, admissions])
                await ledger.aclose()
                await journal.aclose()
        finally:
            await store.aclose()
        return {"run_us": runs_us / TURNS_AT_ONCE, "admission_us": admissions_us / TURNS_AT_ONCE}

    async def _attaches(self) -> Costs:
        """attach: subscribe to a run, read a page of events, leave."""
        store = open_store(self._settings)
        async with nodes(self._engine, 2, self._settings) as (owner, follower):
            run = live_run("attached")
            for _ in range(PAGE_EVENTS):
                await append(owner, [run], 1, self._terms(owner))
            reader, channel = LogReader(follower, store.reader), keys.run_hint(run.run_id)

            async def attach() -> None:
                await follower.subscribe(channel, _unheard)
                _, events = await reader.events(run.run_id, BEFORE_FIRST, _PAGE_BYTES)
                await follower.unsubscribe(channel, _unheard)
                if len(events) != PAGE_EVENTS:
                    raise AssertionError(f"{len(events)} events of {PAGE_EVENTS} were read")

            (attach_us,) = await self._in_turns([attach])
        await store.reader.aclose()
        return {"attach_us": attach_us}

    # Memory, and nodes that do nothing

    async def _memory(self) -> Costs:
        """run: a live run with one event, and the room its stream takes at once. event: one more of `EVENT_BYTES`,
        alone or among ten in its call."""
        runs = [live_run(f"resp_{number:032}") for number in range(RUNS * 10)]
        async with nodes(self._engine, 1, self._settings) as (owner,):
            terms, used = self._terms(owner), [self._engine.used_bytes()]
            for calls, events in ((1, 1), (2 * EVENTS, 1), (8 * EVENTS, 1), (8, EVENTS)):
                for _ in range(calls):
                    await append(owner, runs, events, terms)
                used.append(self._engine.used_bytes())
        run, _, alone, batched = (
            (later - earlier) / len(runs) for earlier, later in zip(used, used[1:], strict=False)
        )
        return {
            "run_bytes": run,
            "event_bytes": alone / (8 * EVENTS),
            "event_of_ten_bytes": batched / (8 * EVENTS),
        }

    async def _upkeep(self) -> Costs:
        """What a node that does nothing costs each second: by itself, and for each node it looks at."""
        few, many = self._node_counts
        looks_us = []
        for count in (few, many):
            self._engine.empty()
            async with nodes(self._engine, count, self._settings) as (first, *_):
                if count == few:
                    self._engine.meter.start()
                    await asyncio.sleep(max(1.0, 4 * self._window_s))
                    cost = self._engine.meter.read()
                looks_us += await self._in_turns([first.alive])
        for_each_us = (looks_us[1] - looks_us[0]) / (many - few) / LOOKS_OF_ALIVE
        pair_us_per_s = for_each_us * LOOKS_PER_LEASE / self._settings.bus.lease_s
        node_us_per_s = cost.main_s / cost.wall_s / few * 1e6
        return {"node_us_per_s": node_us_per_s - few * pair_us_per_s, "node_pair_us_per_s": pair_us_per_s}

    def _terms(self, bus: RedisBus) -> Terms:
        return terms_of(bus.node, bus.publish_command, self._settings.bus)

    async def _in_turns(self, works: Sequence[Work]) -> list[float]:
        """µs of Valkey's first thread for each time a piece of work is done; medians of the rounds."""
        found: list[list[float]] = [[] for _ in works]
        for _ in range(self._rounds):
            for work, values in zip(works, found, strict=True):
                self._engine.meter.start()
                until_s, done = time.monotonic() + self._window_s, 0
                while time.monotonic() < until_s or not done:
                    await work()
                    done += 1
                cost = self._engine.meter.read()
                values.append(cost.main_s / done * 1e6)
        return [statistics.median(values) for values in found]


async def until(true: Callable[[], bool]) -> None:
    """Wait for what no event announces. Raises TimeoutError."""
    async with asyncio.timeout(_WAIT_S):
        while not true():  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.001)


def _unheard(payload: bytes) -> None:
    """What a follower is told is of no interest here."""
