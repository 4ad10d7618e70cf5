"""What happened on this node since its start, as plain numbers: read by `/metrics` and `/v1/admin/status`.

Nothing here waits, writes or grows with what clients send: every label is one of a fixed set.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from antiphon.core.durations import Durations
from antiphon.core.run_state import TERMINAL
from antiphon.ops.lifecycle import Entry
from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS

NO_STATUS = 1005
"""A close that says no code (RFC 6455 7.4.1)."""

OTHER_CLOSE = 0
"""A code of a client that the protocol does not know."""

_KNOWN_CLOSES = frozenset(
    {1000, 1001, NO_STATUS, 1006, 1007, 1008, 1009, 1011, 1012, 1013}
    | {4000, 4001, 4002, 4004, 4029, 4500, 4501, 4502, 4503, 4504, 4505}
)
"""RFC 6455 7.4.1 and PROTOCOL 13."""

_ENDS = {f"run.{state}": state for state in TERMINAL}

UPSTREAM_CODES = frozenset(
    {
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_image",
        "invalid_prompt",
        "model_not_found",
        "rate_limit_exceeded",
        "server_error",
        "vector_store_timeout",
    }
)
"""Codes of the OpenAI API that runs end with and that operators act upon."""

_KNOWN = frozenset({*CODES, *INCOMPLETE_REASONS, *UPSTREAM_CODES, "max_output_tokens", "content_filter"})

Where = Literal["create", "door", "http", "command"]
"""Where somebody was refused: a create, whatever way it came; at the door; by an endpoint; by a frame's answer."""


def bounded(code: str | None) -> str:
    """A code as a label: one of the protocol or a usual one of upstreams, else `other`."""
    if code is None:
        return ""
    return code if code in _KNOWN else "other"


class Counts:
    """runs_ended: by (state, code). refused: by (where, code). closes: of sockets, by code. evicted: readers that
    were too slow and were cut off, by transport. parked: attachments that fell behind and read on from the log.
    attaches: by (transport, mode). replayed: events that were there when somebody attached behind them.
    tools_resolved: by (owner, `ok` or `failed`). terminals: ends that were written here.

    first_output: from a create to its first output. whole_run: from a create to its end. server_tools: calls the
    server made. client_waits: from a call of a client to its answer. cancels: from a cancel to the terminal.
    """

    def __init__(self) -> None:
        self.runs_started = 0
        self.runs_ended: Counter[tuple[str, str]] = Counter()
        self.terminals = 0
        self.refused: Counter[tuple[str, str]] = Counter()
        self.input_tokens = 0
        self.output_tokens = 0
        self.attaches: Counter[tuple[str, str]] = Counter()
        self.replayed = 0
        self.parked = 0
        self.closes: Counter[int] = Counter()
        self.evicted: Counter[str] = Counter()
        self.tools_resolved: Counter[tuple[str, str]] = Counter()
        self.first_output = Durations()
        self.whole_run = Durations()
        self.server_tools = Durations()
        self.client_waits = Durations()
        self.cancels = Durations()

    def told(self, tenant: str, entry: Entry) -> None:
        """Count a lifecycle event; an observer of `Lifecycle`."""
        event, data = entry.event, entry.data
        if event == "run.created":
            self.runs_started += 1
        elif event == "run.usage":
            self.input_tokens += data["input"]
            self.output_tokens += data["output"]
        elif event == "run.tool.resolved":
            self._resolved(data)
        elif event in _ENDS:
            self.runs_ended[_ENDS[event], bounded(data.get("code"))] += 1

    def _resolved(self, data: dict[str, Any]) -> None:
        owner: str = data["owner"]
        self.tools_resolved[owner, "ok" if data["ok"] else "failed"] += 1
        durations = self.server_tools if owner == "server" else self.client_waits
        durations.add(data["duration_ms"] / 1000)

    def refuse(self, where: Where, code: str) -> None:
        """Somebody was told no."""
        self.refused[where, bounded(code)] += 1

    def attach(self, transport: Literal["websocket", "sse"], mode: str, behind: int) -> None:
        """Somebody attached. behind: events that were there and that this one gets."""
        self.attaches[transport, mode] += 1
        self.replayed += max(0, behind)

    def park(self) -> None:
        """An attachment fell behind its run."""
        self.parked += 1

    def evict(self, transport: Literal["websocket", "sse"]) -> None:
        """A reader took nothing for too long and was cut off."""
        self.evicted[transport] += 1

    def close(self, code: int) -> None:
        """A socket is over."""
        self.closes[code if code in _KNOWN_CLOSES else OTHER_CLOSE] += 1

    def errors(self) -> dict[str, int]:
        """By code: runs that failed, and creates that were refused."""
        errors: Counter[str] = Counter()
        for (state, code), number in self.runs_ended.items():
            if state == "failed":
                errors[code or "server_error"] += number
        for (where, code), number in self.refused.items():
            if where == "create":
                errors[code] += number
        return dict(errors)
