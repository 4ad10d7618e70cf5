"""Faults that no outside suite notices: each a change of one place, and the tests that have to catch it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "server/antiphon"


@dataclass(frozen=True)
class Fault:
    """old, new: what is replaced in the file, and by what. tests: files or ids of tests, relative to `tests/`."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def module(self) -> str:
        return "antiphon." + self.file.removesuffix(".py").replace("/", ".")

    def plant(self, text: str) -> str:
        """The text with the fault in it. Raises ValueError if there is not exactly one place for it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} places for this fault, not one")
        return text.replace(self.old, self.new)


FAULTS: dict[str, Fault] = {
    # Numbers and ids
    "a-number-is-skipped": Fault(
        "core/assembly/sink.py",
        "self.next_number = number + 1",
        "self.next_number = number + 2 if number == 4 else number + 1",
        ("session/test_turns.py",),
    ),
    "a-number-is-used-twice": Fault(
        "core/assembly/sink.py",
        "self.next_number = number + 1",
        "self.next_number = number if number == 4 else number + 1",
        ("session/test_turns.py",),
    ),
    "an-item-ends-under-another-id": Fault(
        "core/assembly/item.py",
        'ours["id"] = self.id\n        if self.call_id',
        'ours["id"] = self.id if self.done is None and not self.texts else self.id[::-1]\n        if self.call_id',
        ("session/test_turns.py", "core/test_assembler.py"),
    ),
    "ids-of-the-upstream-leak": Fault(
        "core/assembly/item.py",
        'ours["id"] = self.id\n        if self.call_id',
        'ours["id"] = self.upstream.get("id") or self.id\n        if self.call_id',
        ("session/test_turns.py", "core/test_assembler.py"),
    ),
    "of-events-that-come-together-one-is-shown": Fault(
        "journal/frames.py",
        'frames = b"".join([text_frame(event) for event in self.events])',
        'frames = b"".join([text_frame(event) for event in self.events[-1:]])',
        ("session/test_turns.py",),
    ),
    # Server-Sent Events
    "no-end-marker": Fault(
        "transport/sse.py", "                yield DONE\n", "", ("http/test_stream.py", "http/test_create.py")
    ),
    "no-event-lines": Fault(
        "journal/frames.py",
        'b"event: %b\\nid: %b\\ndata: %b\\n\\n" % (event_type_of(event).encode(), event_id.encode(), event)',
        'b"id: %b\\ndata: %b\\n\\n" % (event_id.encode(), event)',
        ("http/test_stream.py",),
    ),
    "an-upstream-event-in-two-writes-is-lost": Fault(
        "upstream/sse.py",
        "        pending += blocks.pop()\n",
        "        blocks.pop()\n",
        ("upstream/test_sse.py",),
    ),
    "a-character-in-two-writes-is-lost": Fault(
        "upstream/sse.py",
        "events.append((name, data if data.isascii() else _valid_utf8(data)))",
        'events.append((name, data.decode("ascii", "ignore").encode()))',
        ("upstream/test_sse.py",),
    ),
    # Resume
    "resume-repeats-the-last-event": Fault(
        "core/attach.py",
        'return AttachPlan("replay", number)',
        'return AttachPlan("replay", max(number - 1, BEFORE_FIRST))',
        ("session/test_attach.py", "core/test_attach.py"),
    ),
    "resume-skips-an-event": Fault(
        "core/attach.py",
        'return AttachPlan("replay", number)',
        'return AttachPlan("replay", number + 1)',
        ("session/test_attach.py", "core/test_attach.py"),
    ),
    "a-cursor-of-the-future-is-taken": Fault(
        "core/cursor.py",
        "        if after > head:\n",
        "        if after > head + 10**6:\n",
        ("session/test_attach.py",),
    ),
    "a-cursor-of-another-epoch-is-taken": Fault(
        "core/cursor.py",
        "if fork is not None and after >= fork:",
        "if fork is not None and after > fork + 10**6:",
        ("core/test_cursor.py", "core/test_attach.py"),
    ),
    # Who may what
    "any-key-is-taken": Fault(
        "governance/identity/static_keys.py",
        "return self._principals.get(sha256)",
        "return self._principals.get(sha256) or next(iter(self._principals.values()), None)",
        ("identity/test_first_frames.py", "identity/test_authorisation_table.py"),
    ),
    "an-expired-token-is-taken": Fault(
        "governance/identity/authenticator.py",
        "if principal.expires_at is not None and self._clock.now() >= principal.expires_at:",
        "if principal.expires_at is not None and self._clock.now() >= principal.expires_at + 10**6:",
        ("identity/test_expiry.py",),
    ),
    "a-ticket-counts-twice": Fault(
        "governance/identity/tickets.py",
        'if used is not None or found["origin"]',
        'if found["origin"]',
        ("identity/test_tickets.py",),
    ),
    "other-tenants-see-runs": Fault(
        "core/principal.py",
        "        if tenant != self.tenant:\n            return False\n",
        "",
        ("identity/test_authorisation_table.py", "http/test_tenants.py"),
    ),
    "private-runs-are-shown-to-colleagues": Fault(
        "core/principal.py",
        'return visibility != "private" or creator == self.id or self.at_least("operator")',
        "return True",
        ("identity/test_authorisation_table.py", "feed/test_access.py", "http/test_tenants.py"),
    ),
    # Turns
    "history-is-ignored": Fault(
        "runs/run.py",
        "parts = history_parts(self.parent, self.input)",
        "parts = history_parts(None, self.input)",
        ("session/test_memory.py", "http/test_continuation.py"),
    ),
    "two-turns-of-a-lane-run-together": Fault(
        "core/lanes.py",
        "if state.running is None and len(state.waiting) == 1:",
        "if len(state.waiting) == 1:",
        ("session/test_lanes.py", "core/test_lanes.py"),
    ),
    "events-carry-no-lane": Fault(
        "journal/frames.py",
        'return b"}" if stream_id is None else b\',"stream_id":"%b"}\' % stream_id.encode()',
        'return b"}"',
        ("session/test_lanes.py",),
    ),
    "a-connection-never-grows-too-old": Fault(
        "session/connection.py",
        "engine.settings.timeouts.connection_age_s, self._too_old",
        "engine.settings.timeouts.connection_age_s * 10**6, self._too_old",
        ("session/test_age.py",),
    ),
    "an-old-connection-takes-new-turns": Fault(
        "session/connection.py",
        'code="websocket_connection_limit_reached"',
        'code="server_draining"',
        ("session/test_age.py",),
    ),
    "the-same-key-begins-two-runs": Fault(
        "runs/start/idempotency.py",
        "return _same(known, digest) if known is not None else None",
        "return None",
        ("http/test_idempotency.py", "session/test_idempotency.py"),
    ),
    # Slow readers
    "a-full-socket-is-written-to": Fault(
        "session/attachment.py",
        "if self._socket.full or batch.first != self.last + 1:",
        "if batch.first != self.last + 1:",
        ("session/test_backpressure.py",),
    ),
    "a-stalled-socket-is-kept": Fault(
        "transport/fast_websocket.py",
        "        self._discarding = False\n        self.full = False",
        "        self._discarding = False\n        self.full = property()",
        ("session/test_backpressure.py", "transport/test_fast_websocket_flow.py"),
    ),
    "a-slow-reader-is-never-caught-up": Fault(
        "session/attachment.py",
        "            self._write(page)\n            await asyncio.sleep(0)",
        "            self.last += len(page)\n            await asyncio.sleep(0)",
        ("session/test_backpressure.py", "session/test_attach.py"),
    ),
    # Tools and steering
    "a-call-takes-two-answers": Fault(
        "core/held_calls.py",
        "            elif not resolution.repeated_by(sender.identity, answer.result_id):\n"
        "                raise already_resolved(resolution)\n",
        "",
        ("session/test_held_answers.py", "session/test_held_claims.py"),
    ),
    "a-claim-keeps-nobody-out": Fault(
        "core/held_calls.py",
        "if claim is not None and not _holds(claim, sender):\n            message",
        "if False:\n            message",
        ("session/test_held_claims.py",),
    ),
    "a-lease-never-runs-out": Fault(
        "core/held_calls.py",
        "return self.claim if self.claim is not None and self.claim.expires_at > now else None",
        "return self.claim",
        ("session/test_held_claims.py",),
    ),
    "a-steer-cuts-nothing": Fault(
        "core/steering.py",
        "return bool(self._steers) and not self._settled",
        "return False",
        ("session/test_steer.py",),
    ),
    "a-steer-is-not-heard": Fault(
        "core/steering.py",
        "return [item for steer in self._steers for item in steer.items]",
        "return []",
        ("session/test_steer.py",),
    ),
    # The end
    "a-cancel-ends-nothing": Fault(
        "runs/supervisor.py",
        "run.stop, run.stop_at = outcome, asyncio.get_running_loop().time()",
        "return True",
        ("session/test_cancel.py", "http/test_cancel.py"),
    ),
    "a-run-ends-twice": Fault(
        "journal/log.py",
        "self._events.append(terminal)\n        self._bytes += len(terminal)\n        self.head += 1",
        "self._events.extend((terminal, terminal))\n        self.head += 2",
        ("session/test_turns.py",),
    ),
    "a-terminal-is-shown-before-it-is-stored": Fault(
        "runs/loop/ending.py",
        "        if run.stored:\n            ending",
        "        if run.stored:\n            run.log.end(terminal, durable=False)\n            ending",
        ("session/test_crash.py", "session/test_turns.py"),
    ),
    # Several nodes
    "an-old-owner-goes-on-writing": Fault(
        "journal/redis/scripts.py",
        "if theirs > fence or (theirs == fence and known[1] ~= ARGV[1]) then return {'lost'",
        "if theirs > fence + 10^6 then return {'lost'",
        ("journal/test_owners.py",),
    ),
    "a-node-acts-without-its-lease": Fault(
        "core/lease.py",
        "return self.state is LeaseState.HELD and now < self.deadline",
        "return True",
        ("core/test_lease.py",),
    ),
    "a-lost-hint-is-never-noticed": Fault(
        "runs/elsewhere/tailer.py",
        "async with asyncio.timeout(random.uniform(*_LOOK_S)):",
        "async with asyncio.timeout(3600):",
        ("cluster/test_field_bus.py",),
    ),
    "a-gap-in-the-hints-is-relayed": Fault(
        "runs/elsewhere/tailer.py",
        "if events and hint.first <= run_log.head + 1:\n            run_log.relay(events, run_log.head + 1)",
        "if events:\n            run_log.relay(events, run_log.head + 1)",
        ("cluster/test_field_bus.py", "cluster/test_attach.py"),
    ),
}
