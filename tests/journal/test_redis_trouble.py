"""Redis goes away, forgets, or falls back: nothing is lost or doubled in an epoch, and memory stays bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon.bus.redis import keys
from antiphon.core.cursor import Epochs
from antiphon.errors import StorageError
from antiphon.journal.contract import RunLost
from antiphon.journal.log import RunLog
from tests.journal.logs import (
    TOKEN,
    Node,
    ended,
    ending,
    event,
    events,
    everything,
    flushed,
    node,
    opened,
    terminal,
    until,
)
from tests.store.database import Database
from tests.support.redis import RedisServer, redis_server


@pytest.fixture
async def impatient(server: RedisServer, db: Database) -> AsyncIterator[Node]:
    """A node whose commands may take half a second."""
    async with node(server, db, timeout_s=0.5) as made:
        yield made


async def begun(made: Node, run_id: str = "resp_1", last: int = 4) -> RunLog:
    run_log = opened(made.journal, run_id)
    made.journal.append(run_log, events(0, last), 0)
    made.journal.publish_state(run_log)
    await flushed(made.journal, run_log)
    return run_log


async def write_on(made: Node, run_log: RunLog, last: int) -> None:
    """Append events one by one while other things happen."""
    for number in range(run_log.head + 1, last + 1):
        made.journal.append(run_log, [event(number)], number)
        await asyncio.sleep(0.001)


async def test_the_scripts_are_loaded_again_where_a_server_does_not_know_them(
    server: RedisServer, one: Node
) -> None:
    run_log = await begun(one)
    server.command("SCRIPT", "FLUSH")
    assert await one.owns(run_log)
    assert one.journal.healthy and one.lost == []


async def test_connections_that_are_killed_cost_nothing(server: RedisServer, impatient: Node) -> None:
    run_logs = [await begun(impatient, f"resp_{number}") for number in range(5)]
    writing = [asyncio.create_task(write_on(impatient, run_log, 300)) for run_log in run_logs]
    kills = 0
    while not all(task.done() for task in writing):
        kills += server.command("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0.02)
    await asyncio.gather(*writing)
    for run_log in run_logs:
        await flushed(impatient.journal, run_log)
        assert await everything(impatient.journal, run_log.run_id) == events(0, 300)
    assert kills > 5 and impatient.restarted == impatient.lost == []


async def test_a_pause_longer_than_the_timeout_costs_nothing(server: RedisServer, impatient: Node) -> None:
    """What was sent before is done late, and its answer is lost: it is not written twice."""
    run_log = await begun(impatient)
    server.pause()
    try:
        await write_on(impatient, run_log, 50)
        await until(lambda: not impatient.journal.healthy)
        assert run_log.shown == 50 and run_log.durable == 4
    finally:
        server.resume()
    await write_on(impatient, run_log, 100)
    last = await ended(impatient.journal, run_log)
    assert await everything(impatient.journal, "resp_1") == [*events(0, 100), last]
    assert impatient.journal.healthy and impatient.restarted == impatient.lost == []


async def test_a_server_restarted_with_its_log_goes_on_in_the_same_epoch(db: Database) -> None:
    with redis_server("valkey", aof=True) as server:
        async with node(server, db, timeout_s=0.5) as made:
            run_log = await begun(made)
            server.kill()
            await write_on(made, run_log, 50)
            server.start()
            await flushed(made.journal, run_log)
            assert await everything(made.journal, "resp_1") == events(0, 50)
            assert made.restarted == made.lost == [] and run_log.epochs.current == TOKEN


async def test_a_server_restarted_empty_gets_the_logs_again_in_a_new_epoch(
    server: RedisServer, impatient: Node
) -> None:
    run_logs = [await begun(impatient, f"resp_{number}") for number in range(3)]
    impatient.journal.checkpoint(run_logs[0], b"kept")
    await flushed(impatient.journal, run_logs[0])
    server.kill()
    await write_on(impatient, run_logs[0], 50)
    server.start()
    for run_log in run_logs:
        await write_on(impatient, run_log, 60)
        await flushed(impatient.journal, run_log)
        assert await everything(impatient.journal, run_log.run_id) == events(0, 60)
        found = await impatient.journal.find(run_log.run_id)
        assert found is not None and found.epochs == run_log.epochs and found.first == 0
        assert run_log.epochs.current != TOKEN and len(run_log.epochs.entries) == 1
        assert b"resp_" in found.state
    assert server.command("HMGET", keys.run_meta("resp_0"), "cph", "cp") == [b"4", b"kept"]
    assert sorted(impatient.restarted) == ["resp_0", "resp_1", "resp_2"]
    assert {run.id for run in await impatient.journal.owned_by("node1")} == set(impatient.restarted)


@pytest.mark.parametrize("lost", ["log", "meta", "both"])
async def test_a_key_that_is_evicted_gives_a_new_epoch_and_no_hole(
    server: RedisServer, one: Node, lost: str
) -> None:
    run_log = await begun(one)
    if lost in ("meta", "both"):
        server.command("DEL", keys.run_meta("resp_1"))
    if lost in ("log", "both"):
        server.command("DEL", keys.run_log("resp_1"))
    assert await one.owns(run_log)
    assert one.restarted == ["resp_1"] and await everything(one.journal, "resp_1") == events(0, 5)
    last = await ended(one.journal, run_log)
    assert await everything(one.journal, "resp_1") == [*events(0, 5), last]
    assert run_log.epochs.current.encode() in one.db.rows("SELECT epochs FROM responses")[0][0].encode()


async def test_what_memory_no_longer_has_is_gone_with_the_log(server: RedisServer, db: Database) -> None:
    async with node(server, db, journal={"tail_bytes": 200}) as made:
        run_log = opened(made.journal, "resp_1", stored=False)
        for number in range(20):
            made.journal.append(run_log, [event(number)], number)
            await made.journal.flush(run_log)
        kept = run_log.first
        server.command("FLUSHALL")
        made.journal.append(run_log, [event(20)], 20)
        await made.journal.flush(run_log)
        assert kept > 0 and await made.journal.events("resp_1", -1, 10_000) == (kept, events(kept, 20))
        assert run_log.epochs == Epochs(((run_log.epochs.current, kept),))
        assert await made.journal.read(run_log, -1, 10_000) is None


async def test_a_retake_after_everything_is_gone_writes_it_again(server: RedisServer, one: Node) -> None:
    run_log = await begun(one)
    one.side.held = False
    server.command("FLUSHALL")
    await one.journal.retake()
    one.side.held = True
    await one.journal.flush(run_log)
    assert one.restarted == ["resp_1"] and one.lost == []
    assert await everything(one.journal, "resp_1") == events(0, 4)


async def test_a_run_that_was_taken_before_everything_was_gone_is_not_taken_back(
    server: RedisServer, one: Node, two: Node
) -> None:
    old, kept = await begun(one), await begun(one, "resp_2")
    one.side.held = False
    await two.take(await two.journal.find("resp_1"))
    server.command("FLUSHALL")
    await one.journal.retake()
    one.side.held = True
    assert one.lost == ["resp_1"] and old.lost, "its row has the fence of the other node"
    assert await one.owns(kept)


async def test_a_retake_lists_what_is_owned_again(server: RedisServer, one: Node) -> None:
    run_log = await begun(one)
    server.command("DEL", keys.node_runs("node1"))  # as of a node that was taken for dead and forgotten
    await one.journal.retake()
    await one.journal.flush(run_log)
    assert [run.id for run in await one.journal.owned_by("node1")] == ["resp_1"]


@pytest.mark.parametrize("left", [5, 2])
async def test_what_a_failover_has_lost_is_appended_again_in_the_same_epoch(
    server: RedisServer, one: Node, left: int
) -> None:
    """left: entries that the promoted replica had."""
    run_log = opened(one.journal, "resp_1")
    for number in range(10):
        one.journal.append(run_log, [event(number)], number)
        await one.journal.flush(run_log)
    server.command("DEL", keys.run_log("resp_1"))
    for number in range(left):
        server.command("XADD", keys.run_log("resp_1"), f"{number + 1}-0", "p", event(number))
    server.command("HSET", keys.run_meta("resp_1"), "head", left - 1)
    one.journal.append(run_log, [event(10)], 10)
    await one.journal.flush(run_log)
    assert await everything(one.journal, "resp_1") == events(0, 10)
    assert one.restarted == [] and run_log.epochs.current == TOKEN


async def test_a_run_that_redis_does_not_take_stops_and_goes_on(server: RedisServer, impatient: Node) -> None:
    run_log = await begun(impatient)
    server.kill()
    written = 5
    while not impatient.journal.holds_back(run_log):
        impatient.journal.append(run_log, [event(written, 500_000)], written)
        written += 1
        assert written < 50
    acting = asyncio.create_task(impatient.journal.may_act(run_log))
    with pytest.raises(StorageError):
        await impatient.journal.flush(run_log)
    assert not acting.done()
    server.start()
    async with asyncio.timeout(40):
        await acting
    await flushed(impatient.journal, run_log)
    assert run_log.durable == written - 1


async def test_a_decided_terminal_is_shown_although_redis_is_away_and_gets_into_the_log_later(
    db: Database,
) -> None:
    with redis_server("valkey", aof=True) as server:
        async with node(server, db, timeout_s=0.5) as made:
            run_log = await begun(made)
            submit = db.writer.submit

            def decide_and_kill(work):  # type: ignore[no-untyped-def]
                server.kill()
                return submit(work)

            db.writer.submit = decide_and_kill  # type: ignore[method-assign]
            last = await ended(made.journal, run_log)
            assert run_log.ended and run_log.shown == 5
            db.writer.submit = submit  # type: ignore[method-assign]
            server.start()
            await until(lambda: not made.journal._lives)
            assert await everything(made.journal, "resp_1") == [*events(0, 4), last]
            found = await made.journal.find("resp_1")
            assert found is not None and found.ended


async def test_the_end_of_an_unstored_run_waits_for_its_log(server: RedisServer, impatient: Node) -> None:
    run_log = opened(impatient.journal, "resp_1", stored=False)
    impatient.journal.append(run_log, events(0, 4), 0)
    await impatient.journal.flush(run_log)
    server.pause()
    try:
        with pytest.raises(StorageError):
            await impatient.journal.end_unstored(run_log, terminal(5), 0.1)
        assert not run_log.ended
    finally:
        server.resume()
    last = await ended(impatient.journal, run_log)
    assert await everything(impatient.journal, "resp_1") == [*events(0, 4), last]
    found = await impatient.journal.find("resp_1")
    assert found is not None and found.ended and b'"state":"completed"' in found.state


async def test_a_row_that_the_store_does_not_take_ends_in_the_log_alone(one: Node) -> None:
    run_log = await begun(one)
    given = ending(run_log, "failed", http_status=500)
    assert await one.journal.end_undecided(run_log, given)
    run_log.end(given.terminal_event, durable=True)
    assert await everything(one.journal, "resp_1") == [*events(0, 4), given.terminal_event]
    assert one.db.rows("SELECT terminal_event FROM responses") == [(None,)]


async def test_nobody_waits_for_an_undecided_end_of_a_run_that_is_lost(one: Node, two: Node) -> None:
    run_log = await begun(one)
    await two.take(await two.journal.find("resp_1"))
    with pytest.raises(RunLost):
        await one.journal.end_undecided(run_log, ending(run_log, "failed"))
