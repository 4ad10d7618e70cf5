"""Calls that wait for clients inside a live run: each gets exactly one answer (PROTOCOL 7.4).

Decides and remembers; never waits. `check` says what an inject may do, `commit` makes it so: between the two the
answer is made durable, and whoever was faster there is told to this one by `commit` as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import orjson

from antiphon.core.held_answers import APPROVAL_REQUEST, GivenAnswer, late_answer
from antiphon.core.history import answer_type
from antiphon.core.participants import Identity, identity
from antiphon.errors import RequestError

OnExpiry = Literal["fail", "cancel", "wait"]

DEADLINE = "system:deadline"
"""Who answered a call that nobody answered in time."""

SHOWN_RESOLVED = 100

_KINDS = {"function_call": "function", "custom_tool_call": "custom", APPROVAL_REQUEST: "approval"}
_ARGUMENTS = ("arguments", "input")
_ACTIONS = ("action", "actions", "operation")


@dataclass(frozen=True, slots=True)
class Sender:
    """Who injects or claims. instance: stays the same over reconnects. connection: one socket or HTTP request."""

    principal: str
    connection: str
    instance: str | None = None

    @property
    def identity(self) -> Identity:
        return identity(self.principal, self.connection, self.instance)


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call that waits. item_type: of the item, e.g. `function_call`. opened_at, deadline: Unix seconds."""

    call_id: str
    name: str
    item_type: str
    arguments_sha256: str
    opened_at: float
    deadline: float
    on_expiry: OnExpiry = "fail"
    side_effects: bool = False

    @property
    def kind(self) -> str:
        return _KINDS.get(self.item_type, self.item_type.removesuffix("_call"))

    @property
    def tool(self) -> str | None:
        """What a client must have declared to be asked; an approval needs a person, not a tool."""
        return None if self.item_type == APPROVAL_REQUEST else self.name

    @property
    def late(self) -> dict[str, Any] | None:
        """The answer the deadline gives; None: it ends the run instead."""
        if self.on_expiry != "fail":
            return None
        return late_answer(self.item_type, self.call_id, self.deadline - self.opened_at)


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody works on a call until `expires_at` (Unix seconds). fence: rises with each claim of the call.

    Without a principal it was released: what is left of it is the fence.
    """

    principal: str
    key: str
    fence: int
    expires_at: float

    def row(self) -> dict[str, Any]:
        return {"holder": self.principal, **_instance(self.key), "expires_at": self.expires_at}


@dataclass(frozen=True, slots=True)
class Resolution:
    """The one answer of a call. by: the principal, or who of us. sender: the key of its instance or connection."""

    call_id: str
    item: dict[str, Any]
    by: str
    sender: str
    result_id: str | None
    at: float

    def repeated_by(self, who: Identity, result_id: str | None) -> bool:
        same_result = result_id is not None and result_id == self.result_id
        return who[0] == self.by and (who[1] == self.sender or same_result)

    def row(self) -> dict[str, Any]:
        return {"call_id": self.call_id, "by": self.by, **_instance(self.sender), "at": self.at}


@dataclass(slots=True)
class _Held:
    """asked: with side effects, the only ones who may be given the call; None until somebody was asked."""

    call: HeldCall
    fence: int = 0
    claim: Claim | None = None
    asked: frozenset[Identity] | None = None
    answer: Resolution | None = None

    def claimed(self, now: float) -> Claim | None:
        """The claim, if its lease is running."""
        return self.claim if self.claim is not None and self.claim.expires_at > now else None


def held_call(
    item: Mapping[str, Any], *, now: float, deadline_s: float, on_expiry: OnExpiry, side_effects: bool = False
) -> HeldCall:
    """A finished call item, as clients see it, as something to wait for."""
    item_type = str(item["type"])
    call_id = item["id"] if item_type == APPROVAL_REQUEST else item["call_id"]
    return HeldCall(
        call_id=call_id,
        name=str(item.get("name") or item_type.removesuffix("_call")),
        item_type=item_type,
        arguments_sha256=_digest(item),
        opened_at=now,
        deadline=now + deadline_s,
        on_expiry=on_expiry,
        side_effects=side_effects,
    )


class HeldCalls:
    """The held calls of one run: those of the round that waits, and how earlier ones were answered."""

    def __init__(self) -> None:
        self.over = False
        """The run has ended, or its end is decided."""
        self._held: dict[str, _Held] = {}
        self._resolved: dict[str, Resolution] = {}
        self._resolved_rows: list[dict[str, Any]] = []
        """Made once each: every state that was ever told shares them."""

    @property
    def pending(self) -> list[HeldCall]:
        return [held.call for held in self._held.values() if held.answer is None]

    def open(self, call: HeldCall) -> None:
        """The call waits from now on."""
        self._held[call.call_id] = _Held(call)

    def close(self) -> None:
        """The run ended: nothing is accepted any more, but repeats and losers are still told the truth."""
        self.over = True

    # Answers

    def check(self, answers: Sequence[GivenAnswer], sender: Sender, now: float) -> list[Resolution]:
        """What to commit: all of the list, or what of it is no repeat; an empty list is a repeat as a whole.

        Raises RequestError `already_resolved`, `response_already_completed`, `unknown_call`, `invalid_input`,
        `stale_fence` or `claim_held`; then none of the list is accepted.
        """
        new: list[GivenAnswer] = []
        for answer in answers:
            resolution = self._resolved.get(answer.call_id)
            if resolution is None:
                new.append(answer)
            elif not resolution.repeated_by(sender.identity, answer.result_id):
                raise already_resolved(resolution)
        if new and self.over:
            raise run_is_over()
        found = [(answer, self._pending(answer.call_id)) for answer in new]
        for answer, held in found:
            if answer.type != answer_type(held.call.item_type):
                wanted = answer_type(held.call.item_type)
                message = f"Call {answer.call_id[:80]} is a {held.call.item_type}; answer it with a {wanted}."
                raise RequestError(message, code="invalid_input", param="input")
        for answer, held in found:
            if answer.fence is not None and answer.fence != held.fence:
                raise _stale(held)
        for _, held in found:
            self._refuse_foreign(held, sender, now)
        by, key = sender.identity
        return [Resolution(a.call_id, a.item, by, key, a.result_id, now) for a in new]

    def commit(self, resolutions: Iterable[Resolution]) -> list[HeldCall]:
        """These are the answers now, unless a call has one already; gives the calls that were waiting for them."""
        answered: list[HeldCall] = []
        for resolution in resolutions:
            held = self._held.get(resolution.call_id)
            if resolution.call_id in self._resolved:
                continue
            self._resolved[resolution.call_id] = replace(resolution, item={})
            self._resolved_rows.append(resolution.row())
            if held is not None:
                held.answer, held.claim = resolution, None
                answered.append(held.call)
        return answered

    def take(self) -> list[Resolution]:
        """The answers of the calls opened since the last take, in the order of the calls; the set is then done."""
        if self.pending:
            raise RuntimeError("calls of this set are still waiting")
        answers = [held.answer for held in self._held.values() if held.answer is not None]
        self._held.clear()
        return answers

    # Claims

    def claim(
        self, call_id: str, sender: Sender, lease_s: float, now: float, *, eligible: bool, fence: int | None = None
    ) -> Claim:
        """Take a call for a while; the same holder gets its own claim again, extended.

        Raises RequestError `already_resolved`, `response_already_completed`, `unknown_call`, `stale_fence`,
        `not_eligible` or `claim_held`.
        """
        held = self._open(call_id)
        if fence is not None and fence != held.fence:
            raise _stale(held)
        if _holds(held.claimed(now), sender):
            return self._extend(held, lease_s, now)
        if not eligible:
            message = "This call is not for this client: its creator is attached, or the tool was not declared."
            raise RequestError(message, code="not_eligible")
        self._refuse_foreign(held, sender, now)
        held.fence += 1
        held.claim = Claim(*sender.identity, held.fence, now + lease_s)
        if held.call.side_effects:
            held.asked = frozenset({sender.identity})
        return held.claim

    def renew(self, call_id: str, sender: Sender, fence: int, lease_s: float, now: float) -> Claim:
        """Go on with a claim, also after its lease if nobody else took the call. Raises as `claim`."""
        held = self._open(call_id)
        if fence != held.fence or not _holds(held.claim, sender):
            raise _stale(held)
        return self._extend(held, lease_s, now)

    def release(self, call_id: str, sender: Sender, fence: int) -> Claim:
        """Give a call back, undone: anybody eligible may take it. Raises as `claim`."""
        held = self._open(call_id)
        if fence != held.fence or not _holds(held.claim, sender):
            raise _stale(held)
        held.claim = held.asked = None
        return Claim("", "", fence, 0.0)

    def ask(self, call_id: str, eligible: Collection[Identity]) -> frozenset[Identity]:
        """Who of those who could be asked is asked now.

        A call of a tool with side effects stays with those who were asked first: one of them may be at work.
        """
        held = self._held[call_id]
        if held.call.side_effects and held.asked is None and eligible:
            held.asked = frozenset(eligible)
        return frozenset(eligible) if held.asked is None else held.asked.intersection(eligible)

    # Time

    def expired(self, now: float) -> list[HeldCall]:
        """Calls past their deadline for which something has to happen."""
        return [call for call in self.pending if call.on_expiry != "wait" and call.deadline <= now]

    def next_change(self, now: float) -> float | None:
        """When (Unix seconds) the next deadline or lease runs out by itself."""
        times = [call.deadline for call in self.pending if call.on_expiry != "wait"]
        claims = (held.claimed(now) for held in self._held.values() if held.answer is None)
        return min([*times, *(claim.expires_at for claim in claims if claim is not None)], default=None)

    # What others see, and what outlives the process

    def pending_rows(self, now: float, eligible: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
        """As RunState shows them. eligible: connections that are asked, by call."""
        return [_row(held, now, eligible) for held in self._held.values() if held.answer is None]

    def resolved_rows(self) -> list[dict[str, Any]]:
        """The last answered calls, oldest first."""
        return self._resolved_rows[-SHOWN_RESOLVED:]

    def snapshot(self) -> list[dict[str, Any]]:
        """The calls of the round that waits, as JSON. Their answers and claims are kept elsewhere."""
        return [
            {"call": asdict(held.call), "asked": sorted(held.asked) if held.asked is not None else None}
            for held in self._held.values()
        ]

    @classmethod
    def restore(
        cls,
        snapshot: list[dict[str, Any]],
        resolved: Iterable[Resolution],
        claims: Mapping[str, Claim] | None = None,
    ) -> HeldCalls:
        """As it was. resolved: every answer of this run, oldest first. claims: the newest of each call."""
        calls = cls()
        for kept in snapshot:
            asked = frozenset((who[0], who[1]) for who in kept["asked"]) if kept["asked"] is not None else None
            held = _Held(HeldCall(**kept["call"]), asked=asked)
            calls._held[held.call.call_id] = held
            claim = (claims or {}).get(held.call.call_id)
            if claim is not None:
                held.fence = claim.fence
                held.claim = claim if claim.principal else None
                if held.call.side_effects:
                    held.asked = frozenset({(claim.principal, claim.key)}) if claim.principal else None
        calls.commit(resolved)
        return calls

    # Inside

    def _pending(self, call_id: str) -> _Held:
        held = self._held.get(call_id)
        if held is None:
            message = f"No call {call_id[:80]!r} of this response waits for an answer."
            raise RequestError(message, code="unknown_call")
        return held

    def _open(self, call_id: str) -> _Held:
        resolution = self._resolved.get(call_id)
        if resolution is not None:
            raise already_resolved(resolution)
        if self.over:
            raise run_is_over()
        return self._pending(call_id)

    def _refuse_foreign(self, held: _Held, sender: Sender, now: float) -> None:
        claim = held.claimed(now)
        if claim is not None and not _holds(claim, sender):
            message = f"Call {held.call.call_id[:80]} is being worked on by another client."
            raise RequestError(message, code="claim_held", extra=claim.row())

    def _extend(self, held: _Held, lease_s: float, now: float) -> Claim:
        assert held.claim is not None
        held.claim = replace(held.claim, expires_at=now + lease_s)
        return held.claim


def already_resolved(resolution: Resolution) -> RequestError:
    """The refusal of one who came too late, with who came first."""
    message = f"Call {resolution.call_id[:80]} was answered by {resolution.by}."
    return RequestError(message, code="already_resolved", extra={"winner": resolution.row()})


def run_is_over() -> RequestError:
    return RequestError("The response has ended.", code="response_already_completed")


def _stale(held: _Held) -> RequestError:
    message = f"This is not the fence of a claim on call {held.call.call_id[:80]} that you hold."
    return RequestError(message, code="stale_fence")


def _holds(claim: Claim | None, sender: Sender) -> bool:
    return claim is not None and (claim.principal, claim.key) == sender.identity


def _row(held: _Held, now: float, eligible: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    claim = held.claimed(now)
    return {
        "call_id": held.call.call_id,
        "name": held.call.name,
        "arguments_sha256": held.call.arguments_sha256,
        "kind": held.call.kind,
        "eligible": list(eligible.get(held.call.call_id, ())),
        "claim": claim.row() if claim is not None else None,
        "deadline": held.call.deadline,
    }


def _instance(key: str) -> dict[str, str]:
    """The instance in a key, to tell clients of one principal apart."""
    name, _, value = key.partition(":")
    return {"instance": value} if name == "instance" else {}


def _digest(item: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments as they were shown: the text itself, or its JSON with sorted keys."""
    for field in _ARGUMENTS:
        if isinstance(item.get(field), str):
            return hashlib.sha256(item[field].encode()).hexdigest()
    shown = {field: item[field] for field in _ACTIONS if field in item}
    return hashlib.sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()
