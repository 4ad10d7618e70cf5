"""The four ways events are dispatched (acceptance A and M of the contract, without a server)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from antiphon.errors import HookError
from antiphon.governance.hooks import calling
from antiphon.governance.hooks.calling import Failure
from antiphon.governance.hooks.events import EVENTS, IllegalDispatch
from antiphon.governance.observers import Observers
from antiphon.hooks import RunEnded, RunEvent, RunUsage, SkillDispatch
from antiphon_protocol.lifecycle import LIFECYCLE_EVENTS
from tests.hooks.hooking import WAIT_S, dispatching, hang, hang_on, soon, started

ASKED = SkillDispatch("count", None, "resp_1")


def event_of(event: str, run_id: str = "resp_1", **data: Any) -> RunEvent:
    payload = EVENTS[event].payload
    assert issubclass(payload, RunEvent)
    return payload(event, "acme", run_id, {}, data, 1.0)


def noting(notes: list[Any], mark: Any) -> Callable[[Any], Awaitable[None]]:
    async def note(payload: Any) -> None:
        notes.append((mark, payload.run_id, payload.event))

    return note


# The table


def test_every_lifecycle_event_can_be_heard() -> None:
    assert LIFECYCLE_EVENTS.keys() <= EVENTS.keys()


@pytest.mark.parametrize(
    ("mode", "event", "payload", "said"),
    [
        ("parallel", "run.finished", started(), "no event 'run.finished'"),
        ("parallel", "run.completed", event_of("run.completed"), "dispatched by emit, not by parallel"),
        ("parallel", "run.started", event_of("run.completed"), "carries RunStarted, not RunEnded"),
        ("emit", "run.started", started(), "dispatched by parallel, not by emit"),
        ("emit", "run.usage", event_of("run.completed"), "carries RunUsage, not RunEnded"),
        ("emit", "run.finished", event_of("run.completed"), "no event"),
        ("bail", "agent.run", ASKED, "dispatched by waterfall, not by bail"),
        ("bail", "skill.find", started(), "carries SkillDispatch, not RunStarted"),
        ("waterfall", "skill.find", ASKED, "dispatched by bail, not by waterfall"),
        ("waterfall", "agent.run", None, "carries RunRequest, not NoneType"),
    ],
)
async def test_what_is_not_in_the_table_raises_though_nobody_listens(
    mode: str, event: str, payload: Any, said: str
) -> None:
    async with dispatching() as dispatcher:
        with pytest.raises(IllegalDispatch, match=said):
            made = getattr(dispatcher, mode)(event, payload)
            if asyncio.iscoroutine(made):
                await made


async def test_only_async_functions_hear_events_that_exist() -> None:
    async with dispatching() as dispatcher:
        with pytest.raises(IllegalDispatch, match="no event 'run.finished'; there are agent.run"):
            dispatcher.subscribe("run.finished", hang, name="x")
        with pytest.raises(IllegalDispatch, match="has to be an async function"):
            dispatcher.subscribe("run.completed", [].append, name="x")  # type: ignore[arg-type]


# parallel: the started barrier


async def test_all_observers_of_a_start_have_finished_when_the_barrier_opens() -> None:
    notes: list[str] = []
    both = asyncio.Barrier(2)  # each goes on only while the other runs

    def taking(name: str) -> Callable[[Any], Awaitable[None]]:
        async def take(run: Any) -> None:
            await both.wait()
            notes.append(f"{name} {run.run_id}")

        return take

    async with dispatching() as dispatcher:
        for name in ("row", "room"):
            dispatcher.subscribe("run.started", taking(name), name=name, timeout_s=WAIT_S)
        assert await Observers(dispatcher).started(started()) == ()
    assert sorted(notes) == ["room resp_1", "row resp_1"]


@pytest.mark.parametrize("hanging", [hang, hang_on])
async def test_a_hung_optional_observer_costs_its_timeout_and_the_others_finish(hanging: Any) -> None:
    told: list[str] = []

    async def take(run: Any) -> None:
        told.append(run.run_id)

    async with dispatching() as dispatcher:
        dispatcher.subscribe("run.started", hanging, name="hung", timeout_s=0.05)
        dispatcher.subscribe("run.started", take, name="room", timeout_s=WAIT_S)
        async with asyncio.timeout(WAIT_S):
            assert await Observers(dispatcher).started(started()) == (Failure("hung", "timeout"),)
    assert told == ["resp_1"]


async def test_all_failures_of_a_barrier_are_collected_and_logged_without_their_words() -> None:
    async def fail(run: Any) -> None:
        raise ValueError("what the user said")

    async def leave(run: Any) -> None:
        raise SystemExit(1)

    async def cancel(run: Any) -> None:
        raise asyncio.CancelledError

    async with dispatching() as dispatcher:
        for handler in (fail, leave, cancel):
            dispatcher.subscribe("run.started", handler, name=handler.__name__)
        with capture_logs() as lines:
            failures = await Observers(dispatcher).started(started())
    assert failures == tuple(Failure(name, "error") for name in ("fail", "leave", "cancel"))
    assert [line["hook"] for line in lines] == ["fail", "leave", "cancel"]
    assert lines[0]["error"].startswith("ValueError at test_dispatch.py:")
    assert "what the user said" not in str(lines)


@pytest.mark.parametrize("handler", [hang, None])
async def test_a_required_observer_that_fails_fails_the_run(handler: Any) -> None:
    async def fail(run: Any) -> None:
        raise ValueError

    async with dispatching() as dispatcher:
        dispatcher.subscribe("run.started", handler or fail, name="row", timeout_s=0.05, required=True)
        with pytest.raises(HookError) as caught:
            await Observers(dispatcher).started(started())
    assert (caught.value.code, caught.value.status) == ("server_error", 500)


async def test_a_run_that_is_cancelled_at_the_barrier_leaves_no_observer_behind() -> None:
    began, cut = asyncio.Event(), asyncio.Event()

    async def wait(run: Any) -> None:
        began.set()
        try:
            await hang()
        finally:
            cut.set()

    async with dispatching() as dispatcher:
        dispatcher.subscribe("run.started", wait, name="slow", timeout_s=WAIT_S)
        run = asyncio.create_task(Observers(dispatcher).started(started()))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await soon(cut.is_set)


# emit


async def test_nobody_waits_for_observers_and_all_have_run_before_the_end() -> None:
    """Their sleep is an event here: that they run while it is held shows that nobody waits for them."""
    release, begun, done = asyncio.Event(), list[str](), list[str]()

    async def sleepy(payload: RunEvent) -> None:
        begun.append(payload.event)
        await release.wait()
        done.append(payload.event)

    events = ["run.usage", "run.completed", "run.failed"]
    async with dispatching(drain_s=WAIT_S) as dispatcher:
        for event in events:
            dispatcher.subscribe(event, sleepy, name=f"of {event}")
        for event in events:
            dispatcher.emit(event, event_of(event))
        await soon(lambda: len(begun) == 3)
        assert done == []
        release.set()
    assert sorted(done) == sorted(events)


async def test_without_observers_an_emit_is_no_error_and_starts_nothing() -> None:
    async with dispatching() as dispatcher:
        before = asyncio.all_tasks()
        dispatcher.emit("run.completed", event_of("run.completed"))
        assert asyncio.all_tasks() == before and not dispatcher.listens("run.completed")


async def test_events_of_a_run_reach_an_observer_one_after_the_other_and_runs_do_not_wait_for_each_other() -> None:
    notes: list[tuple[str, str]] = []
    release = asyncio.Event()

    async def note(payload: RunEvent) -> None:
        if payload.run_id == "resp_slow":
            await release.wait()
        notes.append((payload.run_id, payload.event))

    order = ["run.created", "run.usage", "run.completed"]
    async with dispatching(drain_s=WAIT_S) as dispatcher:
        for event in order:
            dispatcher.subscribe(event, note, name="x")
        for event in order:
            dispatcher.emit(event, event_of(event, "resp_slow"))
            dispatcher.emit(event, event_of(event, "resp_quick"))
        await soon(lambda: len(notes) == 3)
        assert notes == [("resp_quick", event) for event in order]
        release.set()
    assert notes[3:] == [("resp_slow", event) for event in order]


async def test_a_handler_that_fails_or_hangs_keeps_no_other_event_back() -> None:
    notes: list[Any] = []

    async def fail(payload: RunEvent) -> None:
        raise ValueError("what the user said")

    async with dispatching(emit_timeout_s=0.05, drain_s=WAIT_S) as dispatcher:
        dispatcher.subscribe("run.created", fail, name="x")
        dispatcher.subscribe("run.usage", hang, name="x")
        dispatcher.subscribe("run.completed", noting(notes, "x"), name="x")
        with capture_logs() as lines:
            for event in ("run.created", "run.usage", "run.completed"):
                dispatcher.emit(event, event_of(event))
            await soon(lambda: bool(notes))
    assert [line["event"] for line in lines] == ["observer_failed", "observer_timeout"]
    assert "what the user said" not in str(lines)


async def test_what_finds_no_room_is_lost_and_said_once_at_the_beginning_and_once_at_the_end() -> None:
    release, notes = asyncio.Event(), list[str]()

    async def note(payload: RunEvent) -> None:
        await release.wait()
        notes.append(payload.run_id)

    async with dispatching(emit_pending=2, drain_s=WAIT_S) as dispatcher:
        dispatcher.subscribe("run.completed", note, name="slow")
        quick: list[Any] = []
        dispatcher.subscribe("run.completed", noting(quick, "quick"), name="quick")
        with capture_logs() as lines:
            for n in range(5):
                dispatcher.emit("run.completed", event_of("run.completed", f"resp_{n}"))
                await soon(lambda n=n: len(quick) == n + 1)  # type: ignore[misc]
            release.set()
            await soon(lambda: len(lines) == 2)
            dispatcher.emit("run.completed", event_of("run.completed", "resp_5"))
            await soon(lambda: len(notes) == 3)
    assert notes == ["resp_0", "resp_1", "resp_5"] and len(quick) == 6
    said = [(line["event"], line.get("events")) for line in lines]
    assert said == [("observer_too_slow", None), ("observer_lost_events", 3)]


async def test_what_a_call_raises_after_its_time_is_in_the_log_and_nowhere_else() -> None:
    async def fail_late(payload: Any) -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            raise ValueError("what the user said") from None

    async with dispatching() as dispatcher:
        dispatcher.subscribe("run.started", fail_late, name="late", timeout_s=0.05)
        with capture_logs() as lines:
            assert await Observers(dispatcher).started(started()) == (Failure("late", "timeout"),)
            await soon(lambda: len(lines) == 2)
    assert lines[1]["event"] == "hook_task_failed" and lines[1]["task"] == "run.started late"
    assert "what the user said" not in str(lines)


async def test_of_calls_that_never_end_only_so_many_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "_LEFT_BEHIND", 3)
    monkeypatch.setattr(calling, "_CANCEL_S", 0.01)
    begun = 0
    may_end = asyncio.Event()

    async def never_hears(payload: Any) -> None:
        nonlocal begun
        begun += 1
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    async with dispatching(drain_s=WAIT_S) as dispatcher:
        dispatcher.subscribe("run.started", never_hears, name="deaf", timeout_s=0.01)
        dispatcher.subscribe("run.started", hang, name="slow", timeout_s=0.01)
        for _ in range(6):
            failures = await Observers(dispatcher).started(started())
            assert failures == (Failure("deaf", "timeout"), Failure("slow", "timeout"))
            await soon(lambda: dispatcher.calls._left_behind["run.started deaf"] == min(begun, 3))
        assert begun == 3 and len(dispatcher.calls._tasks) == 3
        may_end.set()
        await soon(lambda: not dispatcher.calls._tasks)
        await Observers(dispatcher).started(started())
        assert begun == 4


async def test_a_shutdown_waits_for_observers_only_so_long() -> None:
    async with dispatching(drain_s=0.05) as dispatcher:
        dispatcher.subscribe("run.completed", hang, name="hung")
        dispatcher.emit("run.completed", event_of("run.completed"))
        with capture_logs() as lines:
            async with asyncio.timeout(WAIT_S):
                await dispatcher.aclose()
    assert lines[-1] == {"event": "hooks_cut_off", "log_level": "error", "calls": 2}


# bail


def answering(answer: Any, asked: list[Any] | None = None) -> Callable[[Any], Awaitable[Any]]:
    async def give(payload: Any) -> Any:
        if asked is not None:
            asked.append(payload)
        return answer

    return give


async def test_the_first_answer_that_is_something_ends_the_asking() -> None:
    asked: list[Any] = []
    async with dispatching() as dispatcher:
        assert await dispatcher.bail("skill.find", ASKED) is None
        dispatcher.subscribe("skill.find", answering(None), name="none")
        dispatcher.subscribe("skill.find", answering(0), name="zero")
        dispatcher.subscribe("skill.find", answering("late", asked), name="late")
        assert await dispatcher.bail("skill.find", ASKED) == 0
    assert asked == []


@pytest.mark.parametrize("handler", [hang, hang_on])
async def test_one_that_cannot_answer_is_an_error_and_not_a_no(handler: Any) -> None:
    async with dispatching() as dispatcher:
        dispatcher.subscribe("skill.find", handler, name="hung", timeout_s=0.05)
        dispatcher.subscribe("skill.find", answering("late"), name="late")
        with pytest.raises(HookError):
            await dispatcher.bail("skill.find", ASKED)


# What observers read


def test_usage_and_ends_have_their_fields_by_name() -> None:
    usage = event_of("run.usage", step=1, input=3, output=4, total=7, cost=None, estimated=True)
    assert isinstance(usage, RunUsage)
    assert (usage.input_tokens, usage.output_tokens, usage.cost, usage.estimated) == (3, 4, None, True)
    ended = event_of("run.failed", usage=None, cost=0.5, code="server_error", by=None)
    assert isinstance(ended, RunEnded)
    assert (ended.status, ended.code, ended.usage, ended.cost) == ("failed", "server_error", None, 0.5)
