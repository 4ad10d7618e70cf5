"""The rows of runs whose logs are on Redis: tried again, and first where they decide whose key it is."""

from __future__ import annotations

import asyncio
import time

import pytest

from antiphon.bus.redis.keys import node_runs
from antiphon.core.cursor import Epochs
from antiphon.errors import StorageError
from antiphon.journal.log import RunLog
from antiphon.store.named_conversations import NamedConversation, create
from antiphon.store.records import ConversationTaken, IdempotencyRecord, KeyTaken
from tests.journal.logs import TOKEN, Node, ended, event, events, everything, flushed, opened, run_state, until
from tests.store.database import locked, new_response
from tests.support.redis import RedisServer


def key(response_id: str) -> IdempotencyRecord:
    return IdempotencyRecord("default", "user:local", "k", b"sha", response_id, time.time() + 1000)


async def test_the_row_is_there_when_a_flush_returns(one: Node) -> None:
    run_log = opened(one.journal, "resp_1")
    one.journal.append(run_log, [event(0)], 0)
    await one.journal.flush(run_log)
    assert one.db.rows("SELECT id, status FROM responses") == [("resp_1", "in_progress")]


async def test_a_store_that_is_away_holds_up_the_row_and_not_the_events(one: Node) -> None:
    with locked(one.db.path):
        run_log = opened(one.journal, "resp_1")
        one.journal.append(run_log, events(0, 4), 0)
        with pytest.raises(StorageError):
            await one.journal.flush(run_log)
        assert await everything(one.journal, "resp_1") == events(0, 4)
    last = await ended(one.journal, run_log)
    assert one.db.rows("SELECT terminal_event FROM responses") == [(last,)]


async def test_the_loser_of_a_key_is_told_and_leaves_nothing(server: RedisServer, one: Node, two: Node) -> None:
    winner = one.journal.open("resp_1", Epochs.starting(TOKEN), stored=True, state=run_state("resp_1"))
    one.journal.begin(winner, new_response("resp_1"), key("resp_1"))
    one.journal.append(winner, [event(0)], 0)
    await one.journal.flush(winner)
    loser = two.journal.open("resp_2", Epochs.starting(TOKEN), stored=True, state=run_state("resp_2"))
    two.journal.begin(loser, new_response("resp_2"), key("resp_2"))
    two.journal.append(loser, [event(0)], 0)
    two.journal.publish_state(loser)
    with pytest.raises(KeyTaken) as taken:
        await two.journal.flush(loser)
    assert taken.value.response_id == "resp_1" and two.journal.healthy
    two.journal.close(loser)
    await asyncio.sleep(0.02)
    assert not [name for name in server.command("KEYS", "*") if b"resp_2" in name]
    assert one.db.rows("SELECT id FROM responses") == [("resp_1",)]


async def test_nothing_of_a_run_with_a_key_goes_to_redis_before_its_row(server: RedisServer, one: Node) -> None:
    run_log = one.journal.open("resp_1", Epochs.starting(TOKEN), stored=True, state=run_state("resp_1"))
    with locked(one.db.path):
        one.journal.begin(run_log, new_response("resp_1"), key("resp_1"))
        one.journal.append(run_log, [event(0)], 0)
        with pytest.raises(StorageError):
            await one.journal.flush(run_log)
        # Only that this node began it, so that whoever finds the node dead finds the row.
        assert server.command("KEYS", "*") == [node_runs("node1").encode()]
    await flushed(one.journal, run_log)
    assert await everything(one.journal, "resp_1") == [event(0)]


async def test_a_run_is_announced_once_its_row_and_its_first_events_are_there(
    server: RedisServer, one: Node
) -> None:
    async with server.client() as client, client.pubsub() as listener:
        await listener.subscribe("begun")
        assert await listener.get_message(timeout=5) is not None  # the acknowledgement
        with locked(one.db.path):
            run_log = opened(one.journal, "resp_1")
            one.journal.announce(run_log, "begun", b"resp_1")
            one.journal.append(run_log, [event(0)], 0)
            with pytest.raises(StorageError):
                await one.journal.flush(run_log)
            assert await everything(one.journal, "resp_1") == [event(0)]
            assert await listener.get_message(timeout=0) is None
        heard = await listener.get_message(timeout=5)
        assert heard is not None and heard["data"] == b"resp_1"
        assert one.db.rows("SELECT id FROM responses") == [("resp_1",)]
        await ended(one.journal, run_log)
        assert await listener.get_message(timeout=0) is None


async def test_the_loser_of_a_conversation_is_told_and_leaves_nothing(
    server: RedisServer, one: Node, two: Node
) -> None:
    def in_redis(run_id: bytes) -> bool:
        return any(run_id in name for name in server.command("KEYS", "*"))

    def begun(node: Node, name: str, writes: tuple[str, int] | None) -> RunLog:
        run_log = node.journal.open(name, Epochs.starting(TOKEN), stored=True, state=run_state(name))
        node.journal.begin(run_log, new_response(name, writes=writes), None)
        node.journal.append(run_log, [event(0)], 0)
        node.journal.publish_state(run_log)
        return run_log

    await one.db.writer.submit(create(NamedConversation("conv_1", "default", "user:local", 1.0, {}), []))
    await one.journal.flush(begun(one, "resp_1", ("conv_1", 0)))
    with locked(one.db.path):
        loser, other = begun(two, "resp_2", ("conv_1", 0)), begun(two, "resp_3", None)
        await until(lambda: in_redis(b"resp_3"))  # its log need not wait for its row
        assert not in_redis(b"resp_2")
    with pytest.raises(ConversationTaken):
        await two.journal.flush(loser)
    two.journal.close(loser)
    await two.journal.flush(other)
    assert two.journal.healthy and not in_redis(b"resp_2")
    assert one.db.rows("SELECT id FROM responses ORDER BY id") == [("resp_1",), ("resp_3",)]
