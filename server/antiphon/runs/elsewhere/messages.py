"""What nodes say to each other about runs, as bytes: JSON, read by who knows what it asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.core.participants import Participant
from antiphon.errors import AntiphonError, BusError, Draining, NodeGone, RequestError, StorageError
from antiphon.runs.held.calls import Injected
from antiphon.runs.steering.settled import SteerSettled

COMPANY = "run.company"
SETTLED = "run.settled"
"""Kinds of messages that are no verb on a run."""

_CLASSES: dict[str, type[AntiphonError]] = {
    cls.__name__: cls for cls in (RequestError, StorageError, BusError, NodeGone, AntiphonError)
}
"""Errors that arrive as what they were; any other one arrives as its base, with the same code and status."""


def pack_error(error: AntiphonError) -> dict[str, Any]:
    """An error as JSON values."""
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls is Draining or cls.__name__ in _CLASSES)
    return {
        "kind": kind,
        "message": error.message,
        "code": error.code,
        "status": error.status,
        "param": error.param,
        "headers": error.headers,
        "extra": error.extra,
    }


def read_error(packed: dict[str, Any]) -> AntiphonError:
    """The error, to be raised here as it was there."""
    fields = dict(packed)
    kind = fields.pop("kind")
    if kind == Draining.__name__:
        return Draining(fields["message"])
    return _CLASSES[kind](**fields)


def pack_injected(injected: Injected) -> bytes:
    error = pack_error(injected.error) if injected.error is not None else None
    return orjson.dumps([injected.sequence_number, injected.duplicate, error])


def read_injected(packed: bytes) -> Injected:
    number, duplicate, error = orjson.loads(packed)
    return Injected(number, duplicate, read_error(error) if error is not None else None)


def pack_settled(settled: SteerSettled) -> bytes:
    fields = {name: getattr(settled, name) for name in SteerSettled.__dataclass_fields__}
    return orjson.dumps(fields | {"error": pack_error(settled.error) if settled.error is not None else None})


def read_settled(packed: bytes) -> SteerSettled:
    fields = orjson.loads(packed)
    error = read_error(fields.pop("error")) if fields["error"] is not None else fields.pop("error")
    return SteerSettled(**fields, error=error)


@dataclass(frozen=True, slots=True)
class Guest:
    """A connection of another node that is attached to a run.

    creator: the run was created on it. said_hello: of a socket that created the run; None for any other guest.
    """

    participant: Participant
    creator: bool = False
    said_hello: bool | None = None


@dataclass(frozen=True, slots=True)
class CompanyNews:
    """Who of one node is attached to a run, told to its owner. listeners: how many attachments there are.

    whole: this is everybody; else guests are those that came or changed, and gone the connections that left.
    """

    run_id: str
    whole: bool
    listeners: int
    guests: list[Guest] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def pack_news(news: CompanyNews) -> bytes:
    return orjson.dumps(news)


def read_news(packed: bytes) -> CompanyNews:
    fields = orjson.loads(packed)
    guests = [
        Guest(**guest | {"participant": Participant(**guest["participant"])}) for guest in fields.pop("guests")
    ]
    return CompanyNews(**fields, guests=guests)


def pack_told(state: dict[str, Any] | None) -> bytes:
    """The answer to news: the RunState row with them in it; None if the run is not here."""
    return orjson.dumps(state)


def read_told(packed: bytes) -> dict[str, Any] | None:
    state: dict[str, Any] | None = orjson.loads(packed)
    return state


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a verb. moved: the run is not of that node, nothing was done. result: packed by the verb."""

    moved: bool = False
    error: AntiphonError | None = None
    result: bytes = b""


def pack_answer(answer: Answer) -> bytes:
    """One letter that says what it is, then the rest: a result of many megabytes is not encoded twice."""
    if answer.moved:
        return b"m"
    if answer.error is not None:
        return b"e" + orjson.dumps(pack_error(answer.error))
    return b"r" + answer.result


def read_answer(packed: bytes) -> Answer:
    kind, rest = packed[:1], packed[1:]
    if kind == b"m":
        return Answer(moved=True)
    if kind == b"e":
        return Answer(error=read_error(orjson.loads(rest)))
    return Answer(result=rest)
