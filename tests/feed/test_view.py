"""Many subscribers of one feed: whatever they take and when, each ends up with what is true, without a gap."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.clock import SystemClock
from antiphon.core.feed_frames import FeedMessage
from antiphon.core.feed_log import KEEP_ENDED_S, LOG_ENTRIES, FeedEntry, FeedLog, FeedRows
from antiphon.core.feed_scope import Facts, FeedScope
from antiphon.core.run_state import TERMINAL
from antiphon.ops.feed.subscription import FeedSubscription
from antiphon.ops.feed.view import FeedView, Mode
from tests.feed.watching import Dashboard
from tests.http.calling import until

EPOCH = "e" * 16
STATES = ("queued", "running", "waiting_for_tool", "completed")
LIVE = FeedScope(state=frozenset({"queued", "running", "waiting_for_tool"}))
OWN = FeedScope(sees="key:a", principal=frozenset({"key:a", "key:b"}))


class Sink:
    """Takes so many bytes, then is full until it is emptied."""

    encoding = "json"
    open = True

    def __init__(self, room: int = 1 << 62) -> None:
        self.room = room
        self.size = 0
        self.writes = 0
        self.frames: list[bytes] = []

    @property
    def full(self) -> bool:
        return self.size >= self.room

    def encode(self, message: FeedMessage) -> bytes:
        return message.payload + b"\n"

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self.writes += 1
        self.frames.append(data)

    def empty_into(self, dashboard: Dashboard) -> None:
        for frame in b"".join(self.frames).splitlines():
            dashboard.take(json.loads(frame))
        self.frames.clear()
        self.size = 0


def entry(rev: int, run: int, state: str, *, private: bool = False, at: float = 0.0, event: str = "") -> FeedEntry:
    who = "key:a" if run % 3 else "key:c"
    facts = Facts(state, None, "m", who, f"conv_{run}", "private" if private else "tenant")
    row = orjson.dumps({"response_id": f"resp_{run}", "state": state, "principal": who, "rev": rev})
    name = event or (f"run.{state}" if state in TERMINAL else "run.updated")
    return FeedEntry(rev, name, f"resp_{run}", facts, row, b"{}", at, at)


def view_of(*entries: FeedEntry) -> FeedView:
    view = FeedView("acme", SystemClock())
    view.begin(FeedLog(EPOCH), FeedRows())
    view.take(entries)
    return view


class Client:
    """A subscriber that comes, is slow, goes and comes back."""

    def __init__(self, view: FeedView, scope: FeedScope, mode: Mode, room: int) -> None:
        self.view, self.scope, self.mode, self.room = view, scope, mode, room
        self.dashboard = Dashboard()
        self.subscription: FeedSubscription | None = None
        self.sink = Sink(room)

    def connect(self, *, resume: bool) -> None:
        """Begin, or go on after the last frame that came; frames that were on their way are lost."""
        if self.subscription is not None:
            self.subscription.close()
        self.sink = Sink(self.room)
        position = (self.dashboard.epoch, self.dashboard.rev) if resume and self.dashboard.epoch else None
        rows = dict(self.dashboard.rows) if position is not None else {}
        self.dashboard = Dashboard()
        self.dashboard.rows = rows
        self.subscription = self.view.subscribe(self.scope, self.mode, self.sink, position=position)

    def read(self) -> None:
        self.sink.empty_into(self.dashboard)
        if self.subscription is not None:
            self.subscription.wake()

    def read_all(self) -> None:
        while self.sink.size:
            self.read()


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_happens_a_client_that_reads_on_has_every_row_and_no_other(luck: random.Random) -> None:
    asyncio.run(_play(luck))


async def _play(luck: random.Random) -> None:
    view = view_of()
    scopes = (FeedScope(), LIVE, OWN)
    clients = [
        Client(view, luck.choice(scopes), luck.choice(("all", "latest")), luck.choice((1, 400, 3000, 1 << 62)))
        for _ in range(6)
    ]
    states: dict[int, str] = {}
    for _ in range(luck.randrange(10, 120)):
        for _ in range(luck.randrange(3)):
            _something_happens(view, states, luck)
        for client in luck.sample(clients, luck.randrange(len(clients))):
            client.read()
        _somebody_does(view, clients, luck)
    for client in clients:
        _judge(view, client)
    assert (view.subscriptions, view._audiences) == (0, {})
    view.close()


def _somebody_does(view: FeedView, clients: list[Client], luck: random.Random) -> None:
    if luck.random() < 0.2:
        luck.choice(clients).connect(resume=luck.random() < 0.7)
    if luck.random() < 0.3:
        view.flush_all(latest=luck.random() < 0.5)
    if luck.random() < 0.03:
        view.begin(FeedLog(f"{view.log.epoch}'"), FeedRows(view.rows))  # an epoch that nobody has seen
    if luck.random() < 0.1:
        view.tell_bookmark()


def _judge(view: FeedView, client: Client) -> None:
    if client.subscription is None:
        client.connect(resume=False)
    client.read_all()
    view.flush_all(latest=True)
    client.read_all()
    true = {one.run_id: json.loads(one.row) for one in view.rows if client.scope.passes(one.facts)}
    assert client.dashboard.rows == true, client.scope
    assert client.subscription is not None
    client.subscription.close()


def _something_happens(view: FeedView, states: dict[int, str], luck: random.Random) -> None:
    run = luck.randrange(8)
    before = states.get(run, "")
    if before in TERMINAL:
        return
    state = luck.choice(STATES[1:]) if before else "queued"
    states[run] = state
    event = "" if before else "run.created"
    view.take([entry(view.log.head + 1, run, state, private=run % 4 == 0, event=event)])


async def test_a_thousand_dashboards_share_what_is_encoded_and_how_often_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = view_of(*[entry(n + 1, n, "running") for n in range(200)])
    encoded = 0
    make = view.frames.delta

    def counted(*args: Any) -> FeedMessage:
        nonlocal encoded
        encoded += 1
        return make(*args)

    monkeypatch.setattr(view.frames, "delta", counted)
    sinks = [Sink() for _ in range(1000)]
    for sink in sinks:
        view.subscribe(FeedScope(), "all", sink)
    assert len({id(sink.frames[0]) for sink in sinks}) == 1, "items are shared, too"
    before = sinks[0].writes
    for n in range(300):
        view.take([entry(view.log.head + 1, n % 200, "running")])
    view.flush_all(latest=True)
    assert encoded == 300 and all(sink.writes == before + 1 for sink in sinks)
    dashboards = [Dashboard() for _ in sinks]
    for sink, dashboard in zip(sinks[::100], dashboards[::100], strict=True):
        sink.empty_into(dashboard)
        assert (len(dashboard.rows), len(dashboard.deltas)) == (200, 300)
    view.close()


async def test_who_reads_nothing_has_no_more_encoded_than_it_takes_and_costs_an_event_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.ops.feed.view.PAGE_BYTES", 1000)
    view = view_of(*[entry(n + 1, n, "running") for n in range(1000)])
    make = view.frames.item
    encoded: list[FeedEntry] = []

    def counted(one: FeedEntry) -> FeedMessage:
        encoded.append(one)
        return make(one)

    monkeypatch.setattr(view.frames, "item", counted)
    stalled = view.subscribe(FeedScope(), "all", Sink(room=1))
    assert 0 < len(encoded) < 50
    keeping_up = view.subscribe(FeedScope(), "all", Sink())
    assert len(encoded) == 1000, "each once, and what was there is shared"
    assert keeping_up._shown == set(), "what it is shown is known of all that keep up together"
    for n in range(100):  # nobody keeps what somebody got who has left
        view.subscribe(FeedScope(agent=frozenset({f"a{n}"})), "all", Sink()).close()
    assert len(view._with_snapshot) == 1
    view.take([entry(1001, 1, "running")])
    assert view._with_snapshot == set() and stalled.audience.snapshot is None
    view.close()


async def test_a_busy_feed_is_written_in_ever_larger_parts_where_many_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = view_of()
    sink = Sink()
    view.subscribe(FeedScope(), "all", sink)
    view._flush_from = asyncio.get_running_loop().time() + 0.05
    for n in range(50):
        view.take([entry(n + 1, n, "running")])
    assert sink.writes == 1
    await until(lambda: sink.writes > 1)
    assert sink.writes == 2
    view.close()


async def test_a_bookmark_is_a_promise_that_nothing_is_missing() -> None:
    view = view_of()
    client = Client(view, LIVE, "all", room=1 << 62)
    client.connect(resume=False)
    view.take([entry(1, 1, "queued"), entry(2, 2, "completed")])
    view.sure = False
    view.tell_bookmark()
    client.read_all()
    assert (client.dashboard.bookmarks, client.dashboard.rev) == (1, 0)
    view.sure = True
    view.tell_bookmark()
    client.read_all()
    assert (client.dashboard.bookmarks, client.dashboard.rev, len(client.dashboard.rows)) == (2, 2, 1)
    view.close()


async def test_who_reads_too_late_begins_anew() -> None:
    view = view_of()
    client = Client(view, FeedScope(), "all", room=1)
    client.connect(resume=False)
    for n in range(LOG_ENTRIES + 1):
        view.take([entry(n + 1, n % 10, "running")])
    view.flush_all(latest=True)
    client.read_all()
    assert (client.dashboard.resets, len(client.dashboard.rows)) == (["too_old"], 10)
    view.close()


def test_an_end_is_the_end_and_goes_after_a_minute() -> None:
    """Field issue O-03."""
    rows = FeedRows([entry(1, 1, "running"), entry(2, 1, "completed", at=100.0), entry(3, 1, "running")])
    assert [one.facts.state for one in rows] == ["completed"]
    rows.apply(entry(4, 2, "running", at=1.0))
    assert rows.expire(100.0 + KEEP_ENDED_S - 0.1) == []
    assert rows.expire(100.0 + KEEP_ENDED_S) == ["resp_1"]
    assert [one.run_id for one in rows] == ["resp_2"]


def test_a_log_has_no_gap_and_can_be_made_longer_at_its_beginning() -> None:
    log = FeedLog(EPOCH, 5)
    assert (log.first, log.after(5), log.after(4), log.after(6)) == (6, [], None, None)
    six = entry(6, 1, "running")
    log.append(six)
    with pytest.raises(ValueError, match="does not follow"):
        log.append(replace(six, rev=8))
    with pytest.raises(ValueError, match="does not lead to"):
        log.prepend([entry(4, 1, "running")])
    log.prepend([entry(4, 1, "running"), entry(5, 2, "running")])
    assert [one.rev for one in log.after(3) or ()] == [4, 5, 6]
    assert [one.rev for one in log.of_run("resp_1")] == [4, 6]
