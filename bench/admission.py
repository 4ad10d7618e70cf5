"""What admission costs: CPU per run on one machine, round trips per reservation on several.

    python -m bench.admission [--runs 20000]

One machine: reserve, commit, a look at the budget, a charge and the end of each run, with quotas, a budget and the
rows written to SQLite behind it; the writer's thread is counted too. Several: one Redis from a wheel, counted by
what the server itself says it read.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from tests.governance.nodes import Node, caller, charge, nodes, spender
from tests.support.redis import RedisServer, redis_server

SETTINGS = {
    "tiers": {
        "pro": {
            "requests_per_month": 10**9,
            "requests_per_day": 10**9,
            "tokens_per_month": 10**12,
            "concurrent_runs": 10**6,
        }
    },
    "budget": [{"period": "day", "cost": 10**6}],
    "price": [{"model": "m", "input": 1, "output": 1}],
}


async def run(node: Node, run_id: str, tier: str) -> None:
    """The whole life of a run, as far as it is counted."""
    reservation = await node.accounts.admission.reserve(caller(tier), run_id, agent=None)
    reservation.commit()
    of_run = spender(run_id, tier=tier)
    await node.accounts.meter.may_call(of_run)
    node.accounts.meter.charge(of_run, charge())
    reservation.ended()


async def only_admission(node: Node, run_id: str, tier: str) -> None:
    """Reserve, commit, end."""
    reservation = await node.accounts.admission.reserve(caller(tier), run_id, agent=None)
    reservation.commit()
    node.accounts.admission.called(run_id)
    reservation.ended()


async def on_one_machine(runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        async with nodes(Path(folder), None, **SETTINGS) as running:
            node = await running.start()
            for name, life in (("reserve, commit, end", only_admission), ("with budget and charge", run)):
                for tier in ("pro", "enterprise"):
                    await life(node, f"warm_{name}_{tier}", tier)
                    await node.settled()
                    began = time.process_time()
                    for number in range(runs):
                        await life(node, f"{name}_{tier}_{number}", tier)
                        if number % 50 == 0:
                            await asyncio.sleep(0)
                    await node.settled()
                    spent_us = (time.process_time() - began) / runs * 1e6
                    print(f"one machine, {tier:10}, {name:22}: {spent_us:6.1f} µs CPU per run")


async def on_several(server: RedisServer, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        async with nodes(Path(folder), server, **SETTINGS) as running:
            node = await running.start()
            await run(node, "warm", "pro")
            await node.settled()
            before = int(server.command("INFO", "stats")["total_reads_processed"])
            began = time.process_time()
            taken = [
                await node.accounts.admission.reserve(caller("pro"), f"resp_{number}", agent=None)
                for number in range(runs)
            ]
            spent_us = (time.process_time() - began) / runs * 1e6
            reads = int(server.command("INFO", "stats")["total_reads_processed"]) - before
            print(f"several nodes, pro: {reads / runs:.2f} round trips, {spent_us:.1f} µs CPU per reservation")
            for reservation in taken:
                reservation.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    runs = parser.parse_args().runs
    asyncio.run(on_one_machine(runs))
    with redis_server("valkey") as server:
        asyncio.run(on_several(server, max(1, runs // 10)))


if __name__ == "__main__":
    main()
