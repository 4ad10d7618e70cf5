"""Reservations: never over the limit, never a unit lost, on one machine and on several (acceptance D, K, O)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from antiphon.bus.redis import keys
from antiphon.core.quotas import requests_counter, tokens_counter
from antiphon.errors import AntiphonError, RequestError, StorageError
from antiphon.governance.admission import memory_ledger, redis_ledger, redis_outbox
from antiphon.governance.admission.journal_bytes import JournalBytes
from antiphon.governance.admission.reservation import Reservation
from antiphon.governance.usage.write_behind import WriteBehind
from tests.governance.nodes import Node, Nodes, TurnedClock, caller, charge, nodes, spender
from tests.support.redis import RedisServer

DAY_S = 86_400


def tier(**numbers: Any) -> dict[str, Any]:
    return {"tiers": {"enterprise": numbers}}


async def refused(node: Node, run_id: str = "resp_x", **fields: Any) -> str:
    with pytest.raises(AntiphonError) as caught:
        await node.accounts.admission.reserve(caller(**fields), run_id, agent=None)
    return f"{caught.value.code}: {caught.value.message}"


async def begin(node: Node, run_id: str) -> Reservation:
    """A run that was admitted, has begun and called a model."""
    reservation = await node.accounts.admission.reserve(caller(), run_id, agent=None)
    reservation.commit()
    assert await node.accounts.meter.may_call(spender(run_id)) is None
    return reservation


async def requests(node: Node, running: Nodes) -> int:
    return await node.used("acme", requests_counter("month", running.clock.at))


async def second(running: Nodes, first: Node) -> Node:
    """Another worker, where there can be one."""
    return first if running.redis is None else await running.start()


async def test_of_a_hundred_starts_at_once_on_two_workers_one_gets_the_last_unit(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=3)) as running:
        one = await running.start()
        two = await second(running, one)
        await begin(one, "resp_a")
        await begin(two, "resp_b")

        async def start(number: int) -> bool:
            node = (one, two)[number % 2]
            try:
                await node.accounts.admission.reserve(caller(), f"resp_{number}", agent=None)
            except RequestError as error:
                assert error.message == "Monthly request quota exceeded"
                return False
            return True

        admitted = await asyncio.gather(*(start(number) for number in range(100)))
        assert sum(admitted) == 1
        assert await requests(one, running) == 3


async def test_quota_zero_refuses_with_exactly_the_monthly_text(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=0, requests_per_day=0)) as running:
        node = await running.start()
        assert await refused(node) == "quota_exceeded: Monthly request quota exceeded"


async def test_the_day_is_refused_after_the_month_and_ends_at_midnight(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_day=1)) as running:
        node = await running.start()
        await begin(node, "resp_1")
        assert await refused(node) == "quota_exceeded: Daily request quota exceeded"
        running.clock.at += DAY_S
        await begin(node, "resp_2")


async def test_a_month_begins_at_zero(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1)) as running:
        node = await running.start()
        await begin(node, "resp_1")
        assert await refused(node) == "quota_exceeded: Monthly request quota exceeded"
        running.clock.at += 31 * DAY_S
        await begin(node, "resp_2")
        assert await refused(node) == "quota_exceeded: Monthly request quota exceeded"


async def test_what_is_released_before_its_commit_comes_back_whole_and_once(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1, concurrent_runs=1)) as running:
        node = await running.start()
        reservation = await node.accounts.admission.reserve(caller(), "resp_1", agent=None)
        for _ in range(2):
            reservation.release()
            reservation.ended()
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (0, 0)
        await begin(node, "resp_2")


async def test_a_release_after_the_commit_gives_nothing_back(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1, concurrent_runs=1)) as running:
        node = await running.start()
        reservation = await begin(node, "resp_1")
        reservation.release()
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (1, 1)


async def test_a_run_that_never_called_a_model_gives_its_unit_back(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1)) as running:
        node = await running.start()
        reservation = await node.accounts.admission.reserve(caller(), "resp_1", agent=None)
        reservation.commit()
        reservation.ended()
        reservation.ended()
        await node.settled()
        assert await requests(node, running) == 0
        assert running.database.rows("SELECT run_id FROM admissions") == []
        (await begin(node, "resp_2")).ended()
        await node.settled()
        assert await requests(node, running) == 1
        assert running.database.rows("SELECT run_id FROM admissions") == [("resp_2",)]


async def test_an_answer_that_needed_no_model_costs_its_unit_all_the_same(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1, concurrent_runs=1)) as running:
        node = await running.start()
        reservation = await node.accounts.admission.reserve(caller(), "resp_1", agent=None)
        reservation.commit()
        reservation.ended(served=True)
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (1, 0)


async def test_slots_come_back_when_runs_end_and_a_full_tenant_may_try_again_soon(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(concurrent_runs=2)) as running:
        one = await running.start()
        two = await second(running, one)
        first, _ = await begin(one, "resp_1"), await begin(two, "resp_2")
        with pytest.raises(RequestError) as caught:
            await two.accounts.admission.reserve(caller(), "resp_3", agent=None)
        assert (caught.value.code, caught.value.retryable) == ("too_many_runs", True)
        assert "x-should-retry" not in caught.value.headers and caught.value.headers["retry-after"] == "2"
        first.ended()
        first.ended()
        await one.settled()
        await begin(two, "resp_3")
        assert await two.slots("acme") == 2


async def test_tenants_do_not_share_anything(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1, concurrent_runs=1)) as running:
        node = await running.start()
        await begin(node, "resp_1")
        for tenant in ("other", "user:acme", "user:a}b{c"):
            await node.accounts.admission.reserve(caller(tenant=tenant), f"resp_{tenant}", agent=None)
        assert (await refused(node)).startswith("quota_exceeded")


async def test_a_start_that_is_cancelled_takes_nothing(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=99, concurrent_runs=99)) as running:
        node = await running.start()
        (await node.accounts.admission.reserve(caller(), "resp_0", agent=None)).release()
        for turns in range(8):
            starting = asyncio.ensure_future(
                node.accounts.admission.reserve(caller(), f"resp_{turns}", agent=None)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await starting).release()  # it was faster
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (0, 0)


async def test_a_warm_up_needs_no_quota(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=0)) as running:
        node = await running.start()
        reservation = await node.accounts.admission.reserve(caller(), "resp_1", agent=None, warm_up=True)
        reservation.commit()
        reservation.ended()
        assert not node.accounts.admission.is_live("resp_1")


async def test_after_a_restart_counters_are_what_the_rows_say(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=2)) as running:
        async with running.node() as node:
            await begin(node, "resp_1")
            await begin(node, "resp_2")
        if shared is not None:
            shared.command("FLUSHALL")
        async with running.node() as node:
            assert await refused(node) == "quota_exceeded: Monthly request quota exceeded"


async def test_a_run_that_is_taken_over_keeps_its_slot_and_ends_once(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=9, concurrent_runs=1)) as running:
        one = await running.start()
        reservation = await begin(one, "resp_1")
        two = await second(running, one)
        reservation.left()
        taken = two.accounts.admission.take_over(caller(), "resp_1", agent=None)
        reservation.ended()
        await one.settled()
        await two.settled()
        assert (await refused(two)).startswith("too_many_runs")
        taken.ended()
        await two.settled()
        assert (await requests(two, running), await two.slots("acme")) == (1, 0)
        await begin(two, "resp_2")


async def test_while_the_store_takes_nothing_a_tenant_that_must_be_counted_is_refused(
    tmp_path: Path, shared: RedisServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(tmp_path, shared, **tier(requests_per_month=1)) as running:
        node = await running.start()

        async def away(*_: Any) -> dict[str, int]:
            raise StorageError("The store is away.")

        with monkeypatch.context() as broken:
            broken.setattr(WriteBehind, "_counted", away)
            assert (await refused(node)).startswith("storage_unavailable")
        await begin(node, "resp_1")
        assert (await refused(node)).startswith("quota_exceeded")


# Several nodes only


async def test_a_reservation_of_a_node_that_died_runs_out(tmp_path: Path, valkey: RedisServer) -> None:
    async with nodes(tmp_path, valkey, **tier(requests_per_month=1, concurrent_runs=1)) as running:
        dead, other = await running.start(), await running.start()
        await dead.accounts.admission.reserve(caller(), "resp_1", agent=None)
        assert (await refused(other)).startswith("quota_exceeded")
        running.clock.at += redis_ledger.PENDING_S + 1
        await begin(other, "resp_2")
        assert (await requests(other, running), await other.slots("acme")) == (1, 1)


async def test_a_commit_that_comes_after_its_reservation_ran_out_counts_all_the_same(
    tmp_path: Path, valkey: RedisServer
) -> None:
    async with nodes(tmp_path, valkey, **tier(requests_per_month=9, concurrent_runs=9)) as running:
        slow, other = await running.start(), await running.start()
        late = await slow.accounts.admission.reserve(caller(), "resp_1", agent=None)
        running.clock.at += redis_ledger.PENDING_S + 1
        await begin(other, "resp_2")
        late.commit()
        await slow.settled()
        assert (await requests(other, running), await other.slots("acme")) == (2, 2)


async def test_slots_of_runs_that_are_nowhere_are_free_again(tmp_path: Path, valkey: RedisServer) -> None:
    async with nodes(tmp_path, valkey, **tier(concurrent_runs=2)) as running:
        other = await running.start()
        async with running.node() as dead:
            await begin(dead, "resp_gone")
            await begin(dead, "resp_lives")
            await dead.settled()
        valkey.command("HSET", "antiphon:v1:run:{resp_lives}:meta", "owner", "somebody")
        assert (await refused(other)).startswith("too_many_runs")  # young slots are believed
        running.clock.at += redis_ledger.UNSEEN_S + 1
        await begin(other, "resp_1")
        assert (await refused(other)).startswith("too_many_runs")
        valkey.command("HSET", "antiphon:v1:run:{resp_lives}:meta", "ended", "1")
        running.clock.at += 2
        await begin(other, "resp_2")


async def test_counters_that_redis_lost_are_made_from_the_rows_and_runs_keep_their_slots(
    tmp_path: Path, valkey: RedisServer
) -> None:
    numbers = {"requests_per_month": 3, "concurrent_runs": 2, "tokens_per_month": 1_000}
    async with nodes(tmp_path, valkey, **tier(**numbers)) as running:
        one, two = await running.start(), await running.start()
        first = await begin(one, "resp_1")
        await begin(one, "resp_2")
        one.accounts.meter.charge(spender("resp_1"), charge(1, 30))
        await one.settled()
        valkey.command("FLUSHALL")
        one.accounts.meter.charge(spender("resp_1"), charge(2, 40))  # must not make a counter that begins at zero
        await one.settled()
        assert (await refused(one)).startswith("too_many_runs")
        assert await requests(two, running) == 2
        assert await two.used("acme", tokens_counter(running.clock.at)) == 70
        first.ended()
        await one.settled()
        await begin(two, "resp_3")
        assert (await refused(one)).startswith("quota_exceeded")


async def test_admission_is_one_round_trip(tmp_path: Path, valkey: RedisServer) -> None:
    async with nodes(tmp_path, valkey, **tier(requests_per_month=99, concurrent_runs=99)) as running:
        node = await running.start()
        await begin(node, "resp_0")
        await node.settled()

        def reads() -> int:
            return int(valkey.command("INFO", "stats")["total_reads_processed"])

        costs_of_looking = -(reads() - reads())
        before = reads()
        await node.accounts.admission.reserve(caller(), "resp_1", agent=None)
        assert reads() - before - costs_of_looking == 1


def test_everything_of_a_tenant_is_on_one_shard_whatever_its_name() -> None:
    for tenant in ("acme", "user:anna@example.org", "user:a}b{c", "user:}"):
        names = ("counters", "slots", "pending", "reserved", "held", "run:resp_1")
        slots = {key_slot(keys.admission(tenant, name).encode()) for name in names}
        assert len(slots) == 1, tenant
    assert keys.admission("user:a", "b") != keys.admission("user", "a:b")


async def test_scripts_that_are_run_twice_change_nothing(tmp_path: Path, valkey: RedisServer) -> None:
    async with nodes(tmp_path, valkey, **tier(requests_per_month=9, concurrent_runs=9)) as running:
        node = await running.start()
        assert isinstance(node.ledger, redis_ledger.RedisLedger)
        claim = node.accounts.limits.claim(caller(), "resp_1", None, running.clock.at)
        for _ in range(2):
            await node.ledger.reserve(claim)
        for _ in range(2):
            node.ledger.commit(claim)
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (1, 1)
        for _ in range(2):
            node.ledger.give_back(claim)
        node.ledger.commit(claim)
        await node.ledger.reserve(claim)  # it was given up before it arrived
        await node.settled()
        assert (await requests(node, running), await node.slots("acme")) == (0, 0)


async def test_while_redis_is_away_a_tenant_that_must_be_counted_is_refused(
    tmp_path: Path, valkey: RedisServer
) -> None:
    async with nodes(tmp_path, valkey, **tier(requests_per_month=2)) as running:
        node = await running.start()
        await begin(node, "resp_1")
        await node.settled()
        valkey.kill()
        assert (await refused(node)).startswith("storage_unavailable")
        assert await node.accounts.meter.may_call(spender("resp_1")) is None
        valkey.start()
        running.clock.at += 1
        await begin(node, "resp_2")
        assert (await refused(node)).startswith("quota_exceeded")


async def test_counters_of_tenants_that_do_nothing_are_forgotten_and_right_when_they_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_ledger, "_TENANTS", 3)
    async with nodes(tmp_path, None, **tier(requests_per_month=2)) as running:
        node = await running.start()
        assert isinstance(node.ledger, memory_ledger.MemoryLedger)
        going_on = await node.accounts.admission.reserve(caller(tenant="busy"), "resp_busy", agent=None)
        for number in range(10):
            for tenant in ("acme", f"t{number}"):
                with contextlib.suppress(RequestError):
                    run_id = f"resp_{tenant}_{number}"
                    reservation = await node.accounts.admission.reserve(caller(tenant=tenant), run_id, agent=None)
                    reservation.commit()
                    reservation.ended(served=True)
        assert len(node.ledger._tallies) == 3, "one of them is reserved and in no row"
        assert {"busy", "acme"} <= node.ledger._tallies.keys()
        going_on.commit()
        assert (await refused(node)).startswith("quota_exceeded")
        for tenant in ("t0", "busy"):
            await node.accounts.admission.reserve(caller(tenant=tenant), f"resp_{tenant}_again", agent=None)
            assert (await refused(node, f"resp_{tenant}_x", tenant=tenant)).startswith("quota_exceeded")


async def test_what_redis_refuses_or_is_too_much_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[tuple[int, Any]] = []
    sent: list[int] = []
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def run_scripts(_: Any, calls: list[Any]) -> list[Any]:
        under_way.set()
        await go_on.wait()
        sent.extend(number for (number,) in calls)
        return [ValueError("refused") if number == 1 else number for (number,) in calls]

    monkeypatch.setattr(redis_outbox, "run_scripts", run_scripts)
    monkeypatch.setattr(redis_outbox, "_MAX_CALLS", 3)
    outbox = redis_outbox.Outbox(lambda: None)  # type: ignore[arg-type, return-value]
    outbox.start()

    def add(number: int) -> None:
        outbox.add((number,), lambda reply: heard.append((number, reply)))  # type: ignore[arg-type]

    for number in range(3):
        add(number)
    await under_way.wait()
    for number in (3, 4):  # the two oldest are lost, on their way as they are
        add(number)
    go_on.set()
    await outbox.flush()
    await outbox.aclose()
    assert sent == [0, 1, 2, 3, 4], "each that was not lost is sent once"
    assert outbox.lost == 2 and [reply for _, reply in heard[:2]] == [None, None]
    assert sorted({number for number, _ in heard}) == [0, 1, 2, 3, 4]


async def test_the_journal_is_looked_at_once_for_all_who_ask_and_again_after_a_failure() -> None:
    class Reader:
        asked = 0
        away = False

        async def rows(self, query: Any) -> list[tuple[int]]:
            self.asked += 1
            await asyncio.sleep(0)
            if self.away:
                raise StorageError("away")
            return [(7,)]

    reader, clock = Reader(), TurnedClock()
    looks = JournalBytes(reader, clock)  # type: ignore[arg-type]
    await asyncio.gather(*(looks.check("acme", 8) for _ in range(50)))
    assert reader.asked == 1
    with pytest.raises(RequestError, match="Journal quota exceeded"):
        await looks.check("acme", 7)
    for number in range(100):
        await looks.check(f"t{number}", 8)
    clock.at += 30
    reader.away = True
    for _ in range(2):
        with pytest.raises(StorageError):
            await looks.check("acme", 8)
    assert reader.asked == 103 and len(looks._looks) == 0
