"""Drives an assembler the way a run does, and holds its log to every promise."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import orjson

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.assembly.response_object import ResponseObject
from tests.support.gap_checker import CheckedRun, check_run
from tests.support.schemas import validate_open_responses, validate_own

Event = dict[str, Any]


def new_assembler(**request: Any) -> Assembler:
    """An assembler whose ids count up: `msg_1`, `call_2`, ..."""
    numbers = itertools.count(1)
    response = ResponseObject("resp_1", 1_764_514_000, {"model": "m", **request})
    return Assembler(response, lambda prefix: f"{prefix}_{next(numbers)}")


def drive(events: Iterable[Event | bytes], end: Outcome | None = None) -> tuple[Assembler, list[bytes]]:
    """Feed upstream events and end the run as its owner would.

    end: what the owner decides where the upstream says nothing; by default that the stream broke off.
    """
    assembler = new_assembler()
    log = [assembler.lifecycle(f"response.{name}", "in_progress") for name in ("created", "in_progress")]
    for event in events:
        log += assembler.feed([event if isinstance(event, bytes) else orjson.dumps(event)])
    outcome = assembler.outcome or end or failed("upstream_error", "The stream broke off.")
    if outcome.status != "failed":
        log += assembler.close_items("incomplete")
    log.append(assembler.terminal(outcome))
    return assembler, log


def check_log(log: Iterable[bytes]) -> CheckedRun:
    """Every promise about a log at once: the gap checker, our models, the specification."""
    events = [orjson.loads(event) for event in log]
    for event in events:
        validate_own(event)
        validate_open_responses(event)
    return check_run(events)


def run(events: Iterable[Event | bytes], end: Outcome | None = None) -> CheckedRun:
    """`drive` and `check_log` in one."""
    return check_log(drive(events, end)[1])


def kinds(log: Iterable[bytes]) -> list[str]:
    return [orjson.loads(event)["type"].removeprefix("response.") for event in log]
