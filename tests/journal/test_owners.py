"""Whose a run is on Redis: one owner writes, one terminal counts, a suspended node shows and writes nothing."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.bus.redis import keys
from antiphon.core.cursor import Epochs
from antiphon.errors import StorageError
from antiphon.journal.contract import RunLost
from antiphon.journal.log import RunLog
from antiphon.store import records
from tests.journal.logs import (
    TOKEN,
    Node,
    ended,
    ending,
    event,
    events,
    everything,
    opened,
    run_state,
    terminal,
    until,
)
from tests.support.redis import RedisServer


async def begun(node: Node, run_id: str = "resp_1", last: int = 4, *, stored: bool = True) -> RunLog:
    """A run with durable events up to `last`."""
    run_log = opened(node.journal, run_id, stored=stored)
    node.journal.append(run_log, events(0, last), 0)
    node.journal.publish_state(run_log)
    await node.journal.flush(run_log)
    return run_log


async def test_a_run_can_be_found_with_all_that_another_node_needs(one: Node, two: Node) -> None:
    run_log = await begun(one)
    one.journal.checkpoint(run_log, b"where it stands")
    await one.journal.flush(run_log)
    found = await two.journal.find("resp_1")
    assert found is not None
    assert (found.owner, found.fence, found.head, found.first) == ("node1", 1, 4, 0)
    assert (found.stored, found.ended, found.checkpoint) == (True, False, None), "a look is cheap"
    assert found.epochs == Epochs.starting(TOKEN)
    assert b'"response_id":"resp_1"' in found.state
    assert await everything(two.journal, "resp_1") == events(0, 4)
    assert await two.journal.find("resp_2") is None
    assert (await two.take(found)).checkpoint == (4, b"where it stands")


async def test_an_adopter_goes_on_and_the_old_owner_is_told_once(one: Node, two: Node) -> None:
    old = await begun(one)
    seen: list[bytes] = []
    old.listen(lambda batch: seen.extend(batch.events))
    new = two.goes_on(await two.take(await two.journal.find("resp_1")))
    assert await two.owns(new)
    one.journal.append(old, [b'{"wrong":5}'], 5)
    with pytest.raises(RunLost):
        await one.journal.flush(old)
    shown = len(seen)
    one.journal.append(old, [b'{"wrong":6}'], 6)
    assert one.lost == ["resp_1"] and len(seen) == shown
    for refused in (one.journal.flush(old), one.journal.may_act(old), one.journal.end(old, ending(old), 1)):
        with pytest.raises(RunLost):
            await refused
    assert await everything(one.journal, "resp_1") == events(0, 5)


async def test_of_several_adopters_one_gets_the_run(one: Node, two: Node) -> None:
    await begun(one)
    found = await two.journal.find("resp_1")
    assert found is not None
    taken = await asyncio.gather(*(node.journal.adopt(found) for node in (one, two, two, one, two)))
    assert len([run for run in taken if run is not None]) == 1
    owner = await one.journal.find("resp_1")
    assert owner is not None and owner.fence == 2


async def test_an_adopted_run_is_listed_at_its_new_owner_and_its_row_knows(one: Node, two: Node) -> None:
    await begun(one)
    assert [run.id for run in await two.journal.owned_by("node1")] == ["resp_1"]
    taken = await two.take(await two.journal.find("resp_1"))
    assert taken.fence == 2
    assert await two.journal.owned_by("node1") == []
    assert [run.id for run in await two.journal.owned_by("node2")] == ["resp_1"]
    assert two.db.rows("SELECT fence FROM responses") == [(2,)]


async def test_a_run_whose_row_was_never_written_is_taken_as_one_without(one: Node, two: Node) -> None:
    run_log = one.journal.open("resp_1", Epochs.starting(TOKEN), stored=True, state=run_state("resp_1"))
    one.journal.append(run_log, [event(0)], 0)
    await one.journal.flush(run_log)
    assert not (await two.take(await two.journal.find("resp_1"))).stored


async def test_a_higher_fence_wins_over_what_a_failover_brought_back(
    server: RedisServer, one: Node, two: Node
) -> None:
    await begun(one)
    meta = keys.run_meta("resp_1")
    run_log = two.goes_on(await two.take(await two.journal.find("resp_1")))
    server.command("HSET", meta, "owner", "node1", "fence", 1)
    assert await two.owns(run_log)
    assert server.command("HMGET", meta, "owner", "fence") == [b"node2", b"2"]


async def test_with_the_same_fence_the_meta_says_who_owns_the_run(server: RedisServer, one: Node) -> None:
    run_log = await begun(one)
    server.command("HSET", keys.run_meta("resp_1"), "owner", "node0")
    assert not await one.owns(run_log) and one.lost == ["resp_1"]


async def test_a_suspended_node_shows_and_writes_nothing_until_it_has_its_runs_back(one: Node) -> None:
    run_log = await begun(one)
    seen: list[bytes] = []
    run_log.listen(lambda batch: seen.extend(batch.events))
    one.side.held = False
    one.journal.append(run_log, events(5, 9), 5)
    assert one.journal.holds_back(run_log)
    acting = asyncio.create_task(one.journal.may_act(run_log))
    flushing = asyncio.create_task(one.journal.flush(run_log))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(acting)
    assert seen == [] and not flushing.done() and run_log.durable == 4
    await one.journal.retake()
    one.side.held = True
    async with asyncio.timeout(30):
        await acting
        await flushing
    assert seen == events(5, 9) == (await everything(one.journal, "resp_1"))[5:]
    assert one.journal.fence(run_log) == 2 and one.lost == []


async def test_what_was_taken_during_a_suspension_is_lost_and_the_rest_goes_on(one: Node, two: Node) -> None:
    kept, taken = await begun(one, "resp_kept"), await begun(one, "resp_taken")
    seen: list[bytes] = []
    taken.listen(lambda batch: seen.extend(batch.events))
    one.side.held = False
    for run_log in (kept, taken):
        one.journal.append(run_log, [event(5)], 5)
    await two.take(await two.journal.find("resp_taken"))
    await one.journal.retake()
    one.side.held = True
    assert one.lost == ["resp_taken"] and seen == []
    assert await one.owns(kept)
    assert await everything(two.journal, "resp_taken") == events(0, 4)


async def test_a_retake_whose_answer_was_lost_is_done_again(one: Node) -> None:
    run_log = await begun(one)
    await one.side.commands.hset(keys.run_meta("resp_1"), "fence", "7")  # type: ignore[misc]
    await one.journal.retake()
    assert one.journal.fence(run_log) == 8
    assert await one.owns(run_log)


async def test_of_two_nodes_that_end_a_run_one_decides_and_both_show_its_terminal(one: Node, two: Node) -> None:
    old = await begun(one)
    one.side.held = False
    new = two.goes_on(await two.take(await two.journal.find("resp_1")))
    one.side.held = True  # it never noticed
    verdicts = await asyncio.gather(
        one.journal.end(old, ending(old), 5),
        two.journal.end(new, ending(new, "failed"), 5),
        return_exceptions=True,
    )
    (row,) = one.db.rows("SELECT terminal_event FROM responses")
    log = await everything(one.journal, "resp_1")
    assert log == [*events(0, 4), row[0]]
    for verdict in verdicts:
        assert isinstance(verdict, RunLost) or verdict.terminal_event == row[0]  # type: ignore[union-attr]


async def test_a_terminal_decided_before_the_takeover_is_what_the_adopter_appends(one: Node, two: Node) -> None:
    old = await begun(one)
    one.side.held = False
    await one.db.writer.submit(records.end(ending(old), []))
    taken = await two.take(await two.journal.find("resp_1"))
    await two.journal.conclude(taken, terminal(5), 5)
    assert await everything(two.journal, "resp_1") == [*events(0, 4), terminal(5)]
    found = await two.journal.find("resp_1")
    assert found is not None and found.ended and b'"completed"' in found.state
    await two.journal.conclude(taken, terminal(5), 5)
    assert await everything(two.journal, "resp_1") == [*events(0, 4), terminal(5)]
    with pytest.raises(RunLost):
        await one.journal.conclude(taken, terminal(5), 5)


async def test_a_run_that_is_handed_over_goes_on_in_its_epoch_and_numbers(one: Node, two: Node) -> None:
    run_log = await begun(one)
    one.journal.append(run_log, [event(5)], 5)
    one.journal.checkpoint(run_log, b"clean")
    await one.journal.release(run_log)
    (released,) = await two.journal.owned_by("")
    assert (released.owner, released.head) == ("", 5)
    taken = await two.take(released)
    assert taken.checkpoint == (5, b"clean")
    assert await two.journal.owned_by("") == []
    new = two.goes_on(taken)
    assert await two.owns(new)
    assert await everything(one.journal, "resp_1") == events(0, 6)
    assert one.lost == [] and taken.epochs == Epochs.starting(TOKEN)


async def test_whoever_flushes_a_run_that_has_just_ended_need_not_wait(one: Node) -> None:
    run_log = await begun(one)
    one.journal.append(run_log, [event(5)], 5)
    flushing = asyncio.create_task(one.journal.flush(run_log))
    await ended(one.journal, run_log)
    async with asyncio.timeout(40):
        await flushing
        await one.journal.flush(run_log)
        await one.journal.may_act(run_log)


async def test_a_run_that_was_handed_over_is_not_flushed_here_any_more(one: Node) -> None:
    run_log = await begun(one)
    await one.journal.release(run_log)
    one.journal.append(run_log, [event(5)], 5)
    with pytest.raises(RunLost):
        await one.journal.flush(run_log)
    assert run_log.shown == 4 and one.lost == []


async def test_a_run_that_cannot_be_handed_over_now_goes_on_here(server: RedisServer, one: Node) -> None:
    run_log = await begun(one)
    server.command("SET", keys.RELEASED, "not a set")
    with pytest.raises(StorageError):
        await one.journal.release(run_log)
    assert await one.owns(run_log)


async def test_a_mirror_becomes_the_log_and_its_readers_stay(one: Node, two: Node) -> None:
    await begun(one)
    taken = await two.take(await two.journal.find("resp_1"))
    mirror = RunLog("resp_1", taken.epochs, window_bytes=10_000, stored=True, strict=False)
    mirror.relay(events(0, 2), 0)
    heard: list[bytes] = []
    mirror.listen(lambda batch: heard.extend(batch.events))
    epochs = taken.epochs.forked("b" * 16, 5)
    run_log = two.journal.open(
        "resp_1", epochs, stored=True, state=run_state("resp_1"), head=4, fence=taken.fence, onto=mirror
    )
    assert run_log is mirror
    assert await two.owns(run_log)
    assert heard == [event(5)] and await two.journal.read(run_log, 2, 10_000) == events(3, 5)
    found = await one.journal.find("resp_1")
    assert found is not None and found.epochs == epochs


async def test_runs_that_ended_are_no_longer_their_nodes(one: Node, two: Node) -> None:
    run_log = await begun(one)
    await ended(one.journal, run_log)
    await until(lambda: not one.journal._flusher._leaving)
    assert await two.journal.owned_by("node1") == []
    assert await one.side.commands.exists(keys.node_runs("node1")) == 0


async def test_a_create_that_came_to_nothing_leaves_nothing(server: RedisServer, one: Node) -> None:
    run_log = await begun(one)
    one.journal.close(run_log)
    await until(lambda: server.command("KEYS", "antiphon:*") == [])
    assert await one.journal.find("resp_1") is None


async def test_hints_carry_small_batches_and_tell_of_everything_else(server: RedisServer, one: Node) -> None:
    sharded = one.side.publish_command == "SPUBLISH"
    async with server.client(protocol=2) as client:
        listener = client.pubsub()
        channel = one.journal.hint_channel("resp_1")
        await (listener.ssubscribe(channel) if sharded else listener.subscribe(channel))

        async def heard() -> bytes:
            async with asyncio.timeout(30):
                while True:
                    message = await listener.get_message(ignore_subscribe_messages=True, timeout=5)
                    if message is not None:
                        return bytes(message["data"])

        run_log = opened(one.journal, "resp_1")
        one.journal.append(run_log, events(0, 1), 0)
        first = one.journal.read_hint(await heard())
        assert (first.first, first.last, first.events, first.more) == (0, 1, tuple(events(0, 1)), True)
        one.journal.append(run_log, [event(2)], 2)
        second = one.journal.read_hint(await heard())
        assert (second.events, second.more) == ((event(2),), False)
        one.journal.append(run_log, [event(3, 10_000)], 3)
        third = one.journal.read_hint(await heard())
        assert (third.first, third.last, third.events, third.more) == (3, 3, (), False)
        one.journal.publish_state(run_log)
        assert one.journal.read_hint(await heard()).more
        await ended(one.journal, run_log)
        last = one.journal.read_hint(await heard())
        assert (last.first, last.last, last.more) == (4, 4, True)
        await listener.aclose()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("wrong", [b"", b"1 2\n", b"a b c\n", b"1 2 0"])
def test_what_is_no_hint_is_told_apart(one: Node, wrong: bytes) -> None:
    with pytest.raises(ValueError):
        one.journal.read_hint(wrong)
