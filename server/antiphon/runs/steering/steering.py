"""Steering of live runs: who may, when the run is cut short, and what follows it (PROTOCOL 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from antiphon.core.assembly.outcome import Outcome
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.create_request import parse_create
from antiphon.core.history import OpenCall
from antiphon.core.input_urls import check_input_urls
from antiphon.core.principal import Principal
from antiphon.core.run_state import TERMINAL, RunState
from antiphon.core.steering import STEERED, Steer, SteerBook, required_input, steer_items
from antiphon.errors import AntiphonError, Draining, RequestError, StorageError
from antiphon.journal.contract import Journal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Ids
from antiphon.runs.directory import RunDirectory
from antiphon.runs.loop.ending import RunEnder
from antiphon.runs.run import Create, CreatorConnection, Followed, Run
from antiphon.runs.service import RunService
from antiphon.runs.steering.following import Successors, keep_successor
from antiphon.runs.steering.pending import Pending, PendingSteers
from antiphon.runs.steering.settled import SettledListener, SteerSettled, SteerTaken
from antiphon.runs.supervisor import Supervisor

log = structlog.get_logger(__name__)


class Steering:
    """Takes steers and starts successors."""

    def __init__(
        self,
        *,
        service: RunService,
        pending: PendingSteers,
        directory: RunDirectory,
        journal: Journal,
        successors: Successors,
        supervisor: Supervisor,
        registry: RunRegistry,
        ender: RunEnder,
        ids: Ids,
        refuses_private_urls: bool,
    ) -> None:
        self._service = service
        self._pending = pending
        self._directory = directory
        self._journal = journal
        self._successors = successors
        self._supervisor = supervisor
        self._registry = registry
        self._ids = ids
        self._refuses_private_urls = refuses_private_urls
        self._listeners: dict[str, SettledListener] = {}
        self._accepting: dict[str, asyncio.Event] = {}
        """Steers that are being written; set when their sender is told."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_waiting: Callable[[Run], None] = lambda run: None
        """Called when the steers of a run that waits for clients changed: so has what is kept for a restart."""
        pending.on_change = self._pending_changed
        ender.before_end = self._before_end

    async def steer(
        self,
        response_id: str,
        given: Any,
        principal: Principal,
        connection: CreatorConnection | None = None,
        on_settled: SettledListener | None = None,
        *,
        steer_id: str | None = None,
    ) -> SteerTaken:
        """Take a steer for a live run and end the run at once if it is at a safe point.

        connection: the socket it came over, None for HTTP. steer_id: minted by the sender's node; taken once,
        however often it is sent. Raises RequestError with a code of PROTOCOL 7.3, `forbidden`, Draining or
        StorageError; then the run goes on as if nothing had been said.
        """
        run = self._directory.live(response_id, principal)
        if run is None or run.phase == "ended":
            raise await self._ended(response_id, principal, run)
        if any(steer.id == steer_id for steer in run.steers):
            return _taken(run, steer_id or "")
        self._admit(run, principal, connection)
        if self._refuses_private_urls:
            check_input_urls(steer_items(given))
        steer = run.steers.add(steer_id or self._ids.mint("steer"), principal.id, given)
        if on_settled is not None:
            self._listeners[steer.id] = on_settled
        if run.successor_id is None:
            run.successor_id = self._ids.mint("resp")
        self._note(run.state, run.steers, [steer])
        log.info("run_steered", response_id=run.id, steer_id=steer.id, by=principal.id)
        if run.steerable_now:
            self._supervisor.stop(run, STEERED)
        elif run.only_waits:
            await self._keep(run, steer)
        return _taken(run, steer.id)

    async def _keep(self, run: Run, steer: Steer) -> None:
        """What is said to a run that waits outlives this process, as the wait does. Raises StorageError."""
        told = self._accepting[steer.id] = asyncio.Event()
        self.on_waiting(run)
        try:
            await self._journal.flush(run.log)
        except StorageError:
            if run.steers.withdraw(steer):
                self._withdrawn(run, steer)
                raise
        finally:
            del self._accepting[steer.id]
            told.set()

    def _withdrawn(self, run: Run, steer: Steer) -> None:
        self._listeners.pop(steer.id, None)
        if not len(run.steers):
            run.successor_id = None
        if run.only_waits:
            self.on_waiting(run)  # what could not be written is tried again, and must not have it any more
        data = {"steer_id": steer.id, "by": steer.principal, "stage": "failed"}
        self._registry.change(run.state, event="run.steered", data=data, steers=run.steers.rows())

    async def _ended(self, response_id: str, principal: Principal, run: Run | None) -> RequestError:
        if run is not None and run.outcome is not None:
            status: str = run.outcome.status
        else:
            status = (await self._directory.stored(response_id, principal)).status
        return ended_for_steers(status)

    def _admit(self, run: Run, principal: Principal, connection: CreatorConnection | None) -> None:
        """The door, already now: what it would refuse later is refused while the run is still untouched."""
        if self._service.draining:
            message = "The server is shutting down and starts no successor."
            raise Draining(message)
        if not principal.at_least("driver"):
            raise RequestError("This key may watch runs but not steer them.", code="forbidden")
        creator = run.create.connection
        own = creator is not None and connection is not None and creator.id == connection.id
        if creator is not None and not own and creator.open and not creator.said_hello:
            raise RequestError(
                "The client that started this run would not expect a successor; only it may steer.",
                code="steering_not_supported",
            )
        if run.request.conversation_id is not None:
            raise RequestError(
                "A turn of a conversation has no successor; say this in the next one.",
                code="steering_not_supported",
            )
        if run.phase != "streaming" or (run.stop is not None and run.stop is not STEERED):
            raise RequestError("The response is ending.", code="response_not_active")

    # The end of a target

    def _before_end(self, run: Run, outcome: Outcome, open_calls: Sequence[OpenCall]) -> str | None:
        """The hook of RunEnder: the id of the run that will follow, if one will."""
        settlement = run.steers.settle(outcome, bool(open_calls))
        if settlement == "none":
            return None
        error: AntiphonError | None = None
        if settlement == "failed":
            error = RequestError(f"The response ended: {outcome.code}.", code="response_not_active")
        elif settlement == "successor" and self._service.draining:
            error = _no_successor("the server is shutting down.")
            run.steers.fail()
        elif settlement == "successor":
            run.successor = asyncio.get_running_loop().create_future()
            run.successor_id = run.successor_id or self._ids.mint("resp")
            run.following = keep_successor(run, _create_of_successor(run))
        else:
            self._pending.keep(run)
        if run.successor is None:
            run.successor_id = None
        self._note(run.state, run.steers, list(run.steers))
        task = asyncio.get_running_loop().create_task(self._after_end(run, error), name=f"steers of {run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run.successor_id

    def _forget(self, run: Run) -> None:
        """Another node has the run: what becomes of its steers is told there."""
        for steer in run.steers:
            self._listeners.pop(steer.id, None)
        if run.successor is not None and not run.successor.done():
            run.successor.set_result(None)

    async def _after_end(self, run: Run, error: AntiphonError | None) -> None:
        await run.done.wait()
        if run.outcome is None:
            self._forget(run)
            return
        if error is None and run.outcome is not None and run.outcome.status == "failed":
            error = RequestError("The end of the response could not be stored.", code="response_not_active")
            if run.successor is None:
                self._pending.give_up(run.id)
            else:
                await self._failed(run)
        elif run.successor is not None:
            error = await self._succeed(run, run.successor)
        if run.successor is not None and not run.successor.done():
            run.successor.set_result(None)
        for steer in run.steers:
            if (told := self._accepting.get(steer.id)) is not None:
                await told.wait()  # nothing is said about a steer before it was accepted
            listener = self._listeners.pop(steer.id, None)
            if listener is not None:
                listener(_settled(run, steer, error))

    async def _succeed(self, run: Run, successor: asyncio.Future[Followed | None]) -> AntiphonError | None:
        """Start the run that follows, through the one door; gives what stood in the way."""
        assert run.turn is not None
        memory = ConnectionMemory()
        memory.remember(None, run.turn)
        try:
            started = await self._service.start(
                _create_of_successor(run), run.principal, memory, response_id=run.successor_id
            )
        except AntiphonError as error:
            await self._failed(run)
            return _no_successor(error.message)
        except Exception:
            log.exception("successor_crashed", response_id=run.id)
            await self._failed(run)
            return _no_successor("a fault of the server.")
        successor.set_result(started.run)
        return None

    async def _failed(self, run: Run) -> None:
        """What was announced did not come true: nobody may wait for the successor."""
        run.steers.fail()
        if run.state.terminal is not None:
            run.state.terminal = {key: value for key, value in run.state.terminal.items() if key != "successor"}
        self._note(run.state, run.steers, list(run.steers))
        if run.following is not None:
            try:
                await self._successors.give_up(run.id)
            except StorageError:
                log.warning("successor_not_forgotten", response_id=run.id)

    # Telling

    def _pending_changed(self, pending: Pending) -> None:
        self._note(pending.state, pending.steers, list(pending.steers))

    def _note(self, state: RunState, steers: SteerBook, changed: Sequence[Steer]) -> None:
        """Put the steers into the run's state, with one lifecycle event for each that changed."""
        if state.state in TERMINAL and not self._registry.lists(state.response_id):
            state.steers = steers.rows()  # nobody sees the run any more
            return
        for steer in changed:
            data = {"steer_id": steer.id, "by": steer.principal, "stage": steer.stage}
            self._registry.change(state, event="run.steered", data=data, steers=steers.rows())


def ended_for_steers(status: str) -> RequestError:
    """Why a response with this status takes no steer."""
    if status in ("completed", "incomplete"):
        message = "The response has ended; send this in a create that continues it."
        return RequestError(message, code="response_already_completed")
    return RequestError(f"The response is {status} and takes no steering.", code="response_not_active")


def _taken(run: Run, steer_id: str) -> SteerTaken:
    return SteerTaken(steer_id, run.id, run.log.shown, run.successor_id)


def _settled(run: Run, steer: Steer, error: AntiphonError | None) -> SteerSettled:
    calls = run.turn.open_calls if run.turn is not None and steer.stage == "pending" else ()
    number = max(run.log.shown, 0)
    return SteerSettled(steer.id, run.id, steer.stage, number, steer.given, error, required_input(calls))


def _no_successor(why: str) -> AntiphonError:
    return AntiphonError(f"The successor could not be started: {why}", code="successor_creation_failed")


def _create_of_successor(run: Run) -> Create:
    """The target's create with the steers as input: the same model, tools, settings and instructions."""
    left_out = ("idempotency_key", "conversation", "generate")
    raw = {key: value for key, value in run.create.raw.items() if key not in left_out}
    raw |= {"input": run.steers.items(), "previous_response_id": run.id}
    if run.holds:  # perhaps its agent wished so, for a client that may not be here any more
        raw["antiphon"] = {**(raw.get("antiphon") or {}), "client_tools": "hold"}
    return Create(
        request=parse_create(raw),
        raw=raw,
        origin=run.create.origin,
        caller_token=run.create.caller_token,
        connection=run.create.connection,
        instance=run.create.instance,
        traceparent=run.create.traceparent,
    )
