"""Lanes: FIFO within a lane, lanes at the same time, a bound on both running and waiting turns."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from antiphon.core.lanes import LaneName, Lanes, check_lane_name
from antiphon.errors import RequestError


def lanes(running: int = 16, named: int = 32, waiting: int = 1024) -> Lanes[str]:
    return Lanes(max_running=running, max_named=named, max_waiting=waiting)


def test_the_first_turn_of_a_lane_starts_at_once() -> None:
    assert lanes().submit("a", "a1") == ["a1"]


def test_a_second_turn_of_a_lane_starts_when_the_first_has_ended() -> None:
    queue = lanes()
    queue.submit("a", "a1")
    assert queue.submit("a", "a2") == []
    assert queue.finished("a1") == ["a2"]


def test_turns_of_different_lanes_run_at_the_same_time() -> None:
    queue = lanes()
    assert [queue.submit(lane, f"{lane}1") for lane in ("a", "b", None)] == [["a1"], ["b1"], ["None1"]]
    assert queue.running == 3


def test_the_seventeenth_lane_waits_until_one_of_sixteen_has_ended() -> None:
    queue = lanes()
    for number in range(16):
        queue.submit(f"l{number}", f"t{number}")
    assert queue.submit("l16", "t16") == []
    assert queue.finished("t3") == ["t16"]


def test_lanes_that_wait_for_a_slot_get_it_in_order_of_arrival() -> None:
    queue = lanes(running=1)
    queue.submit("a", "a1")
    for ticket in ("b1", "a2", "c1"):
        queue.submit(ticket[0], ticket)
    assert [queue.finished(ticket) for ticket in ("a1", "b1", "c1")] == [["b1"], ["c1"], ["a2"]]


def test_the_thirty_third_name_is_refused_and_known_ones_still_work() -> None:
    queue = lanes(waiting=10_000)
    for number in range(32):
        queue.submit(f"l{number}", f"t{number}")
    with pytest.raises(RequestError) as refused:
        queue.submit("l32", "t32")
    assert refused.value.code == "websocket_stream_limit_reached"
    assert not queue.knows("l32")
    queue.submit("l0", "again")
    queue.submit(None, "default")


def test_a_turn_refused_because_too_many_wait_uses_up_no_name() -> None:
    queue = lanes(running=1, named=2, waiting=1)
    queue.submit("a", "a1")
    queue.submit("a", "a2")
    with pytest.raises(RequestError) as refused:
        queue.submit("b", "b1")
    assert refused.value.code == "too_many_queued"
    assert refused.value.status == 429
    queue.finished("a1")
    queue.submit("b", "b1")
    assert queue.knows("b")


def test_turns_that_wait_can_be_taken_out_while_the_running_ones_go_on() -> None:
    queue = lanes(running=2)
    for ticket in ("a1", "b1", "a2", "c1", "a3"):
        queue.submit(ticket[0], ticket)
    assert sorted(queue.clear_waiting()) == ["a2", "a3", "c1"]
    assert queue.waiting == 0
    assert queue.finished("a1") == []
    assert queue.submit("c", "c2") == ["c2"]


def test_only_a_started_turn_can_finish_and_a_mistake_changes_nothing() -> None:
    queue = lanes()
    queue.submit("a", "a1")
    queue.submit("a", "a2")
    with pytest.raises(ValueError, match="started"):
        queue.finished("a2")
    assert queue.finished("a1") == ["a2"]
    assert queue.finished("a2") == []


def test_a_turn_that_waits_for_a_tool_gives_its_slot_away_and_goes_on_beside_the_others() -> None:
    queue = lanes(running=1)
    queue.submit("a", "a1")
    queue.submit("b", "b1")
    assert queue.park("a1") == ["b1"]
    assert queue.park("a1") == []
    queue.unpark("a1")
    assert queue.running == 2
    queue.submit("c", "c1")
    assert queue.finished("a1") == []
    assert queue.finished("b1") == ["c1"]


def test_a_waiting_turn_that_ends_frees_its_lane_and_no_second_slot() -> None:
    queue = lanes(running=1)
    queue.submit("a", "a1")
    queue.park("a1")
    queue.submit("b", "b1")
    queue.submit("a", "a2")
    assert queue.finished("a1") == []
    assert queue.running == 1
    assert queue.finished("b1") == ["a2"]


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 256])
def test_a_legal_name_is_taken(name: str) -> None:
    assert check_lane_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 257, "a b", "ä", "a/b", "a\n", "a\x00", None, 5, [], {}, True, b"a", "\u0660"]
)
def test_an_illegal_name_is_refused_with_its_param(name: object) -> None:
    with pytest.raises(RequestError) as refused:
        check_lane_name(name)
    assert (refused.value.code, refused.value.param) == ("invalid_stream_id", "stream_id")


@given(st.text(max_size=300))
def test_a_name_is_taken_exactly_if_it_has_1_to_256_of_the_legal_characters(name: str) -> None:
    legal = 1 <= len(name) <= 256 and all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)
    try:
        assert check_lane_name(name) == name
        assert legal
    except RequestError:
        assert not legal


class LanesMachine(RuleBasedStateMachine):
    """A model with one queue per lane; every promise is checked after each step."""

    @initialize(running=st.integers(1, 4), named=st.integers(0, 3), waiting=st.integers(1, 8))
    def begin(self, running: int, named: int, waiting: int) -> None:
        self.limits = (running, named, waiting)
        self.lanes: Lanes[int] = Lanes(max_running=running, max_named=named, max_waiting=waiting)
        self.queues: dict[LaneName, deque[int]] = {}
        self.running: dict[LaneName, int] = {}
        self.started: set[int] = set()
        self.next = 0

    def took(self, tickets: list[int]) -> None:
        for ticket in tickets:
            assert ticket not in self.started, "started twice"
            self.started.add(ticket)
            lane = next(lane for lane, queue in self.queues.items() if queue and queue[0] == ticket)
            assert lane not in self.running, "two run in one lane"
            self.queues[lane].popleft()
            self.running[lane] = ticket

    @rule(lane=st.sampled_from([None, "a", "b", "c", "d"]))
    def submit(self, lane: LaneName) -> None:
        waiting = sum(map(len, self.queues.values()))
        names = len([name for name in self.queues if name is not None])
        ticket, self.next = self.next, self.next + 1
        known = lane is None or lane in self.queues
        try:
            started = self.lanes.submit(lane, ticket)
        except RequestError as error:
            full, out_of_names = waiting >= self.limits[2], not known and names >= self.limits[1]
            assert full or out_of_names
            assert error.code == ("too_many_queued" if full else "websocket_stream_limit_reached")
            return
        self.queues.setdefault(lane, deque()).append(ticket)
        self.took(started)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted(self.running, key=str)))
        self.took_after_finish(lane)

    def took_after_finish(self, lane: LaneName) -> None:
        ticket = self.running.pop(lane)
        self.took(self.lanes.finished(ticket))

    @rule()
    def clear(self) -> None:
        gone = self.lanes.clear_waiting()
        assert sorted(gone) == sorted(ticket for queue in self.queues.values() for ticket in queue)
        for queue in self.queues.values():
            assert [ticket for ticket in gone if ticket in queue] == list(queue), "out of order"
            queue.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.lanes.running == len(self.running) <= self.limits[0]
        assert self.lanes.waiting == sum(map(len, self.queues.values())) <= self.limits[2]

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        idle = [lane for lane, queue in self.queues.items() if queue and lane not in self.running]
        assert not idle or len(self.running) == self.limits[0]

    def teardown(self) -> None:
        """Nobody starves: when everything that runs ends again and again, everything starts."""
        while self.running:
            self.took_after_finish(next(iter(self.running)))
        assert not any(self.queues.values())


TestLanesAgainstAModel = LanesMachine.TestCase
TestLanesAgainstAModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), max_size=40),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_every_lane_is_served_in_order_whatever_ends_first(
    order: list[LaneName], running: int, random: object
) -> None:
    queue: Lanes[tuple[LaneName, int]] = Lanes(max_running=running, max_named=32, max_waiting=100)
    begun: list[tuple[LaneName, int]] = []
    live: list[tuple[LaneName, int]] = []
    for number, lane in enumerate(order):
        started = queue.submit(lane, (lane, number))
        begun += started
        live += started
    while live:
        ended = live.pop(random.randrange(len(live)))  # type: ignore[attr-defined]
        started = queue.finished(ended)
        begun += started
        live += started
    for name in set(order):
        assert [n for lane, n in begun if lane == name] == [n for n, lane in enumerate(order) if lane == name]
