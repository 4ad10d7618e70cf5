"""Pieces of the work that nodes give to Redis, for `redis_kinds.py` and `redis_steps.py`."""

from collections.abc import Sequence
from typing import Any

import orjson
from redis_engine import CLOCK

from antiphon.bus.redis.bus import RedisBus
from antiphon.core.budgets import Spender
from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.principal import Principal
from antiphon.core.run_state import RunState
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.redis_ledger import RedisLedger
from antiphon.journal.log import RunLog
from antiphon.journal.redis.journal import RedisJournal
from antiphon.journal.redis.live import Live, Part, Terms, take
from antiphon.journal.redis.scripts import run_scripts
from antiphon.settings.storage import BusSettings
from antiphon.store.records import Ending, NewResponse

EVENT_BYTES = 250
TENANT = "bench"
TOKEN = "a" * 16
_PRINCIPAL = "key:bench"
_WINDOW_BYTES = 64 * 1024
_WAIT_S = 60.0


def state_of(run_id: str, tenant: str = TENANT) -> RunState:
    """What Redis keeps of a run beside its events, as large as that of a plain turn."""
    now = CLOCK.now()
    return RunState(
        response_id=run_id,
        conversation_id=f"conv_{run_id}",
        tenant=tenant,
        principal=_PRINCIPAL,
        model="antiphon/echo",
        upstream="builtin",
        origin="websocket",
        epoch=TOKEN,
        created_at=now,
        updated_at=now,
        state="running",
    )


def live_run(run_id: str) -> Live:
    """An unstored run that has not begun."""
    log = RunLog(run_id, Epochs.starting(TOKEN), window_bytes=_WINDOW_BYTES, stored=False, strict=False, kept=True)
    return Live(log, state_of(run_id), fence=1, acked=BEFORE_FIRST, mode="new", born=True)


def delta(number: int) -> bytes:
    """An event as large as the delta of a few words."""
    body = b'{"type":"response.output_text.delta","sequence_number":%d,"delta":"' % number
    return body + b"x" * (EVENT_BYTES - len(body) - 2) + b'"}'


def add_events(live: Live, count: int) -> None:
    """A run has spoken."""
    first = live.log.head + 1
    live.log.append([delta(first + index) for index in range(count)], first)
    live.version += 1


def terms_of(node: str, publish_command: str, settings: BusSettings) -> Terms:
    """What the journal of a node with these settings says with each append."""
    ttl_ms, linger_ms = (round(value_s * 1000) for value_s in (settings.live_log_ttl_s, settings.linger_s))
    return Terms(node, publish_command, settings.hint_bytes, ttl_ms, linger_ms, linger_ms, CLOCK.monotonic())


async def append(bus: RedisBus, runs: Sequence[Live], events: int, terms: Terms) -> None:
    """One exchange: so many events of each run. Raises AssertionError if one is refused."""
    for run in runs:
        add_events(run, events)
    parts = [take(run, terms) for run in runs]
    for part, reply in zip(parts, await run_scripts(bus.commands, [part.call for part in parts]), strict=True):
        taken(part, reply)


def taken(part: Part, reply: Any) -> None:
    """Redis has answered one append. Raises AssertionError if it was refused."""
    if isinstance(reply, Exception) or reply[0] != b"ok":
        raise AssertionError(f"an append was refused: {reply!r}")
    part.live.mode = "on"
    part.live.took(part, int(reply[1]))


async def admitted(ledger: RedisLedger, limits: Limits, run_id: str) -> None:
    """What a turn with one call of a model counts."""
    at = CLOCK.now()
    claim = limits.claim(Principal(id=_PRINCIPAL, tenant=TENANT, role="driver", tier="pro"), run_id, None, at)
    await ledger.reserve(claim)
    ledger.commit(claim)
    spender = Spender(run_id=run_id, tenant=TENANT, principal=_PRINCIPAL, agent=None, tier="pro")
    ledger.spend(spender, "1", limits.spendings(spender, at, 100, None), at)
    ledger.end(claim)


async def whole_run(journal: RedisJournal, run_id: str) -> None:
    """A stored run of one event, from its row to its end."""
    state = state_of(run_id)
    log = journal.open(run_id, Epochs.starting(TOKEN), stored=True, state=state)
    response = b'{"id":"%b","status":"in_progress","output":[]}' % run_id.encode()
    journal.begin(log, _row(state, orjson.dumps(log.epochs.entries).decode(), response), None)
    journal.append(log, [delta(0)], 0)
    terminal = b'{"type":"response.completed","sequence_number":1,"response":%b}' % response
    await journal.end(log, _ending(state, response, terminal), _WAIT_S)
    log.end(terminal, durable=True)


def _row(state: RunState, epochs: str, response: bytes) -> NewResponse:
    return NewResponse(
        id=state.response_id,
        tenant=TENANT,
        creator=_PRINCIPAL,
        visibility="tenant",
        conversation_id=state.conversation_id,
        previous_response_id=None,
        status="in_progress",
        fence=1,
        epochs=epochs,
        created_at=state.created_at,
        input=b'{"type":"message","role":"user","content":"hi"}',
        context_input=None,
        response=response,
        run_state=orjson.dumps(state.row()),
    )


def _ending(state: RunState, response: bytes, terminal: bytes) -> Ending:
    return Ending(
        id=state.response_id,
        fence=1,
        status="completed",
        ended_at=CLOCK.now(),
        context_output=b"",
        open_calls=b"[]",
        response=response,
        run_state=orjson.dumps(state.row()),
        terminal_event=terminal,
        terminal_number=1,
    )
