"""Any order of starts, ends, handovers and charges on two workers: never over a limit, no unit or slot lost."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from antiphon.core.quotas import requests_counter, tokens_counter
from antiphon.errors import RequestError
from antiphon.governance.admission.reservation import Reservation
from tests.governance.nodes import Node, Nodes, caller, charge, nodes, spender
from tests.support.redis import RedisServer

REQUESTS, SLOTS, TOKENS = 6, 3, 40


class Machine(RuleBasedStateMachine):
    """shared: the Redis of two nodes, or None for one machine."""

    shared: RedisServer | None = None
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = contextlib.AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory(prefix="antiphon-test-")
        self.minted = 0
        self.units = 0
        self.slots = 0
        self.tokens = 0
        self.charged: set[tuple[str, int]] = set()

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 30))

    def at_once(self, *calls: Callable[[], Any]) -> None:
        """Calls of what belongs to the loop; then until they are everywhere."""

        async def work() -> None:
            for call in calls:
                call()
            for node in self.workers:
                await node.settled()

        self.do(work())

    @initialize()
    def start(self) -> None:
        if self.shared is not None:
            self.shared.command("FLUSHALL")
        numbers = {"requests_per_month": REQUESTS, "concurrent_runs": SLOTS, "tokens_per_month": TOKENS}

        async def begin() -> None:
            folder = Path(self.folder.name)
            given = nodes(folder, self.shared, tiers={"enterprise": numbers})
            self.running: Nodes = await self.stack.enter_async_context(given)
            self.workers: list[Node] = [await self.running.start()]
            if self.shared is not None:
                self.workers.append(await self.running.start())

        self.do(begin())

    def worker(self, number: int) -> Node:
        return self.workers[number % len(self.workers)]

    @rule(target=runs, number=st.integers(0, 1), commits=st.booleans())
    def reserve(self, number: int, commits: bool) -> Any:
        self.minted += 1
        run_id, node = f"resp_{self.minted}", self.worker(number)
        self.running.clock.at += 0.001
        full = self.units >= REQUESTS or self.tokens >= TOKENS
        try:
            taken = self.do(node.accounts.admission.reserve(caller(), run_id, agent=None))
        except RequestError as error:
            assert error.code == ("quota_exceeded" if full else "too_many_runs")
            assert full or self.slots >= SLOTS
            return multiple()
        assert not full and self.slots < SLOTS
        self.units += 1
        self.slots += 1
        if commits:
            self.at_once(taken.commit)
        return run_id, node, taken

    @rule(run=consumes(runs), calls=st.booleans(), times=st.integers(1, 2))
    def end(self, run: tuple[str, Node, Reservation], calls: bool, times: int) -> None:
        run_id, node, taken = run
        called = taken.state == "committed" and (calls or taken.called)
        if called:
            node.accounts.admission.called(run_id)
        self.at_once(*[taken.ended] * times)
        self.slots -= 1
        self.units -= 0 if called else 1

    @rule(run=consumes(runs))
    def release(self, run: tuple[str, Node, Reservation]) -> None:
        _, _, taken = run
        was_committed = taken.state == "committed"
        self.at_once(taken.release, taken.release, *[taken.ended] * was_committed)
        self.slots -= 1
        self.units -= 0 if was_committed and taken.called else 1

    @precondition(lambda self: len(self.workers) == 2)
    @rule(target=runs, run=consumes(runs), number=st.integers(0, 1))
    def hand_over(self, run: tuple[str, Node, Reservation], number: int) -> Any:
        run_id, _, taken = run
        node, again = self.worker(number), []
        take_over = node.accounts.admission.take_over
        self.at_once(taken.commit, taken.left, lambda: again.append(take_over(caller(), run_id, agent=None)))
        again[0].called = True
        return run_id, node, again[0]

    @rule(run=runs, step=st.integers(1, 3), tokens=st.integers(0, 15))
    def call(self, run: tuple[str, Node, Reservation], step: int, tokens: int) -> None:
        run_id, node, taken = run
        if taken.state == "over":
            return
        self.at_once(lambda: node.accounts.meter.charge(spender(run_id), charge(step, tokens)))
        if (run_id, step) not in self.charged:
            self.charged.add((run_id, step))
            self.tokens += tokens

    @invariant()
    def counters_are_what_happened(self) -> None:
        at = self.running.clock.at
        for node in self.workers if self.minted else ():

            async def look(node: Node = node) -> tuple[int, int, int]:
                used = await node.used("acme", requests_counter("month", at))
                return used, await node.slots("acme"), await node.used("acme", tokens_counter(at))

            assert self.do(look()) == (self.units, self.slots, self.tokens)
        assert self.units <= REQUESTS and self.slots <= SLOTS

    def teardown(self) -> None:
        try:
            self.do(self.stack.aclose())
        finally:
            self.loop.close()
            self.folder.cleanup()


def test_on_one_machine_nothing_is_lost() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=20, stateful_step_count=25, deadline=None))


def test_on_two_nodes_nothing_is_lost(valkey: RedisServer) -> None:
    class OnRedis(Machine):
        shared = valkey

    run_state_machine_as_test(OnRedis, settings=settings(max_examples=10, stateful_step_count=15, deadline=None))
