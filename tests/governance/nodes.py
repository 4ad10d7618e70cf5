"""Nodes that count what tenants use, on each kind of ledger: SQLite behind them, Redis where it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.bus.memory import MemoryBus, MemoryHub, memory_bus
from antiphon.clock import RandomIds, SystemClock
from antiphon.core.budgets import Spender
from antiphon.core.principal import Principal
from antiphon.governance.accounts import Accounts
from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.memory_ledger import MemoryLedger
from antiphon.governance.admission.redis_ledger import RedisLedger
from antiphon.governance.usage.meter import Charge
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.settings import Settings
from tests.store.database import Database, database
from tests.support.redis import RedisServer, commands_to

WAIT_S = 20.0


class TurnedClock:
    """Time that stands still until a test turns it."""

    def __init__(self, now: float = 1_790_000_000.0) -> None:  # 21 September 2026, a Monday
        self.at = now

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class Node:
    """One server's accounts. stopped: what `on_stop` was called with."""

    accounts: Accounts
    ledger: Ledger
    stopped: list[str | None] = field(default_factory=list)

    async def settled(self) -> None:
        """Until everything that happened here is in Redis and in the rows."""
        if isinstance(self.ledger, RedisLedger):
            await self.ledger.flush()
        await self.accounts.flush()

    async def used(self, tenant: str, counter: str) -> int:
        """What a counter says."""
        if isinstance(self.ledger, RedisLedger):
            key = f"antiphon:v1:admission:{{{tenant}}}:counters"
            return int(await self.ledger._commands().hget(key, counter) or 0)
        assert isinstance(self.ledger, MemoryLedger)
        return self.ledger._tallies[tenant].values.get(counter, 0)

    async def slots(self, tenant: str) -> int:
        """How many runs of a tenant have one."""
        if isinstance(self.ledger, RedisLedger):
            return int(await self.ledger._commands().zcard(f"antiphon:v1:admission:{{{tenant}}}:slots"))
        assert isinstance(self.ledger, MemoryLedger)
        return len(self.ledger._slots.get(tenant, ()))


@dataclass
class Nodes:
    """Nodes over one database, and perhaps one Redis."""

    database: Database
    clock: TurnedClock
    redis: RedisServer | None
    settings: dict[str, Any]
    stack: contextlib.AsyncExitStack
    hub: MemoryHub = field(default_factory=MemoryHub)

    async def start(self, **settings: Any) -> Node:
        """One more; a memory ledger has only one at a time."""
        return await self.stack.enter_async_context(self.node(**settings))

    @contextlib.asynccontextmanager
    async def node(self, **settings: Any) -> AsyncIterator[Node]:
        given = Settings(**{**self.settings, **settings})
        limits, writer, ids = Limits(given), self.database.writer, RandomIds()
        rows = WriteBehind(writer, tell_repeats=self.redis is None)
        async with contextlib.AsyncExitStack() as stack:
            ledger: Ledger
            if self.redis is None:
                ledger, bus = MemoryLedger(limits, rows), memory_bus(ids.token(), SystemClock())
            else:
                commands = await stack.enter_async_context(commands_to(self.redis.port))
                ledger = RedisLedger(lambda: commands, limits, rows, self.clock)
                bus = MemoryBus(self.hub, ids.token(), SystemClock(), lease_s=30)
            await bus.start()
            stack.push_async_callback(bus.stop)
            accounts = Accounts(
                settings=given,
                limits=limits,
                ledger=ledger,
                rows=rows,
                writer=writer,
                reader=self.database.reader,
                bus=bus,
                clock=self.clock,
                ids=ids,
            )
            node = Node(accounts, ledger)
            accounts.standing.on_stop = node.stopped.append
            await accounts.start()
            stack.push_async_callback(accounts.aclose)
            yield node


@contextlib.asynccontextmanager
async def nodes(folder: Path, redis: RedisServer | None, **settings: Any) -> AsyncIterator[Nodes]:
    """settings: fields of Settings, for all nodes."""
    async with database(folder) as store, contextlib.AsyncExitStack() as stack:
        yield Nodes(store, TurnedClock(), redis, settings, stack)


def caller(tier: str = "enterprise", tenant: str = "acme", **fields: Any) -> Principal:
    return Principal(**{"id": "key:k", "tenant": tenant, "role": "driver", "tier": tier, **fields})


def spender(run_id: str = "resp_1", **fields: Any) -> Spender:
    given = {"run_id": run_id, "tenant": "acme", "principal": "key:k", "agent": None, "tier": "enterprise"}
    return Spender(**{**given, **fields})


def charge(step: int | str = 1, tokens: int = 10, model: str = "m", **fields: Any) -> Charge:
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    return Charge(step=step, model=model, upstream="stub", usage=usage, **fields)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event announces."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.005)
