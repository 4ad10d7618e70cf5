"""What every bus does, in memory and on each engine."""

from __future__ import annotations

import asyncio
import time

import pytest

from antiphon.errors import AntiphonError, BusError, CursorError, Draining, NodeGone, RequestError, UpstreamError
from tests.bus.nodes import LEASE_S, Cluster, eventually, longest_stall

CHANNEL = "antiphon:v1:run:{resp_1}:hint"


async def test_a_started_node_holds_its_lease_and_the_others_see_it(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    assert one.bus.held and two.bus.held
    assert await one.bus.alive() == await two.bus.alive() == {"n1", "n2"}


async def test_the_lease_is_renewed_for_as_long_as_the_node_runs(cluster: Cluster) -> None:
    node = await cluster.node("n1")
    while await longest_stall(3 * LEASE_S) > LEASE_S / 5:
        node.suspended.clear()  # rightly so: this process could not renew it in time
    assert node.bus.held and not node.suspended
    assert await eventually(lambda: node.bus.healthy)


async def test_a_node_that_stopped_is_reported_until_it_is_forgotten(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    await two.bus.stop()
    assert not two.bus.held
    await eventually(lambda: len(one.gone) >= 3)
    assert set(one.gone) == {frozenset({"n2"})}
    await one.bus.forget_node("n2")
    assert await one.bus.alive() == {"n1"}
    told = len(one.gone) + 1  # one may be on its way
    until = time.monotonic() + LEASE_S
    await eventually(lambda: time.monotonic() > until)
    assert len(one.gone) <= told


async def test_a_node_that_dies_is_reported_once_its_lease_has_run_out(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    await cluster.kill(two)
    died_at = time.monotonic()
    await eventually(lambda: one.gone)
    assert one.gone[0] == {"n2"}
    assert one.gone_at[0] - died_at >= LEASE_S * 0.3


async def test_every_node_can_ask_every_node_and_itself(cluster: Cluster) -> None:
    nodes = [await cluster.node(name) for name in ("n1", "n2", "n3")]
    for asker in nodes:
        for asked in nodes:
            question = f"{asker.id} to {asked.id}".encode()
            assert await asker.bus.ask(asked.id, "q", question, 5) == b"q: " + question
    assert {message[0] for message in nodes[0].messages} == {"n1", "n2", "n3"}


async def test_messages_of_one_node_are_begun_in_the_order_they_were_sent(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    asks = []
    for number in range(200):
        if number % 2:
            asks.append(asyncio.create_task(one.bus.ask("n2", "ask", b"%d" % number, 10)))
            await asyncio.sleep(0)  # a task sends when it begins
        else:
            one.bus.tell("n2", "tell", b"%d" % number)
    await asyncio.gather(*asks)
    assert [int(payload) for _, _, payload in two.messages] == list(range(200))


async def test_answers_of_handlers_that_run_together_find_their_questions(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    waiting: list[asyncio.Future[None]] = []

    async def wait_then_echo(sender: str, kind: str, payload: bytes) -> bytes:
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        await turn
        return payload

    two.answer = wait_then_echo
    asks = [asyncio.create_task(one.bus.ask("n2", "q", b"%d" % number, 10)) for number in range(50)]
    await eventually(lambda: len(waiting) == 50)
    for turn in reversed(waiting):
        turn.set_result(None)
    assert await asyncio.gather(*asks) == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize(
    "error",
    [
        RequestError("no such call", code="unknown_call", param="call_id", extra={"call_id": "call_ä"}),
        CursorError("too old", extra={"first": 7, "head": 12}),
        UpstreamError("was silent", code="upstream_timeout", http_status=504),
        Draining("we are leaving"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_the_handler_is_raised_whole_at_the_asker(
    cluster: Cluster, error: AntiphonError
) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")

    async def refuse(sender: str, kind: str, payload: bytes) -> bytes:
        raise error

    two.answer = refuse
    with pytest.raises(type(error)) as caught:
        await one.bus.ask("n2", "q", b"", 5)
    assert vars(caught.value) == vars(error)
    assert str(caught.value) == str(error)
    assert caught.value.body() == error.body()


async def test_what_a_broken_handler_said_stays_on_its_node(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")

    async def fail(sender: str, kind: str, payload: bytes) -> bytes:
        raise ZeroDivisionError("secret")

    two.answer = fail
    with pytest.raises(AntiphonError) as caught:
        await one.bus.ask("n2", "q", b"", 5)
    assert caught.value.code == "server_error"
    assert "secret" not in str(caught.value.body())


async def test_a_node_that_never_was_is_gone(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    with pytest.raises(NodeGone):
        await one.bus.ask("n9", "q", b"", 10)


async def test_who_asks_a_node_that_dies_is_told_at_once(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    two.answer = never
    ask = asyncio.create_task(one.bus.ask("n2", "q", b"", 60))
    await eventually(lambda: two.messages)
    await cluster.kill(two)
    with pytest.raises(NodeGone) as caught:
        await asyncio.wait_for(ask, 30)
    assert caught.value.code == "owner_unavailable" and caught.value.retryable


async def test_a_node_that_lives_but_does_not_answer_is_not_gone(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    two.answer = never
    with pytest.raises(BusError) as caught:
        await one.bus.ask("n2", "q", b"", 0.3)
    assert not isinstance(caught.value, NodeGone)


async def test_a_question_that_was_cancelled_disturbs_no_other(cluster: Cluster) -> None:
    one, _ = await cluster.node("n1"), await cluster.node("n2")
    asks = [asyncio.create_task(one.bus.ask("n2", "q", b"%d" % number, 10)) for number in range(100)]
    for number, ask in enumerate(asks):
        if number % 3 == 0:
            await asyncio.sleep(0)
            ask.cancel()
    results = await asyncio.gather(*asks, return_exceptions=True)
    for number, result in enumerate(results):
        assert isinstance(result, asyncio.CancelledError) or result == b"q: %d" % number


async def test_a_payload_may_have_64_mib(cluster: Cluster) -> None:
    one, _ = await cluster.node("n1"), await cluster.node("n2")
    payload = b"x" * (64 * 1024 * 1024)
    answer = await one.bus.ask("n2", "q", payload, 30)
    assert len(answer) == len(payload) + 3 and answer.endswith(payload)


@pytest.mark.parametrize("size_bytes", [0, 2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20])
async def test_payloads_of_any_size_keep_their_order(cluster: Cluster, size_bytes: int) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    payload = bytes(range(256)) * (size_bytes // 256) + b"x" * (size_bytes % 256)
    asks = [one.bus.ask("n2", "q", part, 20) for part in (b"first", payload, b"last")]
    answers = await asyncio.gather(*asks)
    assert answers == [b"q: first", b"q: " + payload, b"q: last"]
    assert [len(message[2]) for message in two.messages] == [5, size_bytes, 4]


async def test_what_is_published_is_heard_by_every_subscriber_on_every_node(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    heard: dict[str, list[bytes]] = {"one": [], "also one": [], "two": [], "other": []}
    await one.bus.subscribe(CHANNEL, heard["one"].append)
    await one.bus.subscribe(CHANNEL, heard["also one"].append)
    await two.bus.subscribe(CHANNEL, heard["two"].append)
    await two.bus.subscribe("antiphon:v1:default:lifecycle", heard["other"].append)
    for number in range(10):
        await one.bus.publish(CHANNEL, b"%d" % number)
    await two.bus.publish("antiphon:v1:default:lifecycle", b"public")
    every = [b"%d" % number for number in range(10)]
    await eventually(lambda: heard == {"one": every, "also one": every, "two": every, "other": [b"public"]})


async def test_who_unsubscribed_hears_nothing_and_the_others_still_do(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    left: list[bytes] = []
    stays: list[bytes] = []
    await one.bus.subscribe(CHANNEL, left.append)
    await one.bus.subscribe(CHANNEL, stays.append)
    await one.bus.unsubscribe(CHANNEL, left.append)
    await one.bus.publish(CHANNEL, b"1")
    await eventually(lambda: stays == [b"1"])
    assert left == []
    await one.bus.unsubscribe(CHANNEL, stays.append)
    await one.bus.subscribe(CHANNEL, left.append)
    await one.bus.publish(CHANNEL, b"2")
    await eventually(lambda: left == [b"2"])
    assert stays == [b"1"]


async def test_a_listener_that_fails_keeps_no_other_from_hearing(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    heard: list[bytes] = []

    def fail(payload: bytes) -> None:
        raise ValueError(payload)

    await one.bus.subscribe(CHANNEL, fail)
    await one.bus.subscribe(CHANNEL, heard.append)
    await one.bus.publish(CHANNEL, b"1")
    await one.bus.publish(CHANNEL, b"2")
    await eventually(lambda: heard == [b"1", b"2"])


async def test_a_node_without_the_bus_holds_still_before_its_lease_runs_out(cluster: Cluster) -> None:
    one, two = await cluster.node("n1"), await cluster.node("n2")
    held_when_reported: list[bool] = []

    async def gone(nodes: frozenset[str]) -> None:
        held_when_reported.append(one.bus.held)

    two.bus.on_nodes_gone = gone
    cluster.cut(one)
    await eventually(lambda: one.suspended)
    assert not one.bus.held and not one.bus.healthy
    await eventually(lambda: held_when_reported)
    assert held_when_reported[0] is False
    assert len(one.suspended) == 1


async def test_a_node_that_reaches_the_bus_again_takes_back_what_it_owned_before_it_acts(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    taking_back, may_go_on = asyncio.Event(), asyncio.Event()

    async def take_back() -> None:
        taking_back.set()
        await may_go_on.wait()

    one.bus.on_resumed = take_back
    cluster.cut(one)
    await eventually(lambda: one.suspended)
    cluster.restore(one)
    await asyncio.wait_for(taking_back.wait(), 10)
    assert not one.bus.held
    may_go_on.set()
    await eventually(lambda: one.bus.held)
    assert len(one.suspended) == 1


async def test_taking_back_is_tried_again_until_it_succeeds(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    attempts: list[bool] = []

    async def fail_twice() -> None:
        attempts.append(one.bus.held)
        if len(attempts) <= 2:
            raise BusError("not yet")

    one.bus.on_resumed = fail_twice
    cluster.cut(one)
    await eventually(lambda: one.suspended)
    cluster.restore(one)
    await eventually(lambda: one.bus.held)
    assert attempts == [False, False, False]


async def test_a_node_that_was_cut_off_says_of_no_other_that_it_is_gone_before_it_had_time_to_return(
    cluster: Cluster,
) -> None:
    """After a trouble of the bus itself nobody has a lease for a moment."""
    one, two = await cluster.node("n1"), await cluster.node("n2")
    cluster.cut(one)
    await eventually(lambda: one.suspended)
    await cluster.kill(two)
    before = len(one.gone)
    cluster.restore(one)
    await eventually(lambda: one.resumed)
    await eventually(lambda: len(one.gone) > before)
    assert one.gone_at[before] - one.resumed[-1] >= LEASE_S * 0.95


async def test_methods_that_wait_say_so_when_the_bus_is_away(cluster: Cluster) -> None:
    one = await cluster.node("n1")
    cluster.cut(one)
    waiting = (
        one.bus.alive(),
        one.bus.publish(CHANNEL, b""),
        one.bus.subscribe(CHANNEL, print),
        one.bus.forget_node("n2"),
        one.bus.ask("n1", "q", b"", 0.5),
    )
    async with asyncio.timeout(6):
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [BusError] * 5


async def never(sender: str, kind: str, payload: bytes) -> bytes:
    await asyncio.get_running_loop().create_future()
    raise AssertionError
