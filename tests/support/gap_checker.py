"""Holds the events of one run against the promises of PROTOCOL section 1.

Every streaming test feeds what it received to a `GapChecker`, or hands the whole list to `check_run`. A
broken promise is a `GapError` that names the event, what was expected, and what came just before.

What is checked: numbers without a hole, `response.created` first, dense output, content and summary indices,
one `added` and one `done` per item, the same ids everywhere, deltas that add up to the done text, to the item
and to the terminal's output, the terminal's output equal to the done items in order, one terminal and nothing
after it, one `stream_id` throughout. After `response.failed` items and parts may be open, else never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.gap_items import GapError, Item

Event = Mapping[str, Any]

TERMINAL_STATUS: dict[str, frozenset[str]] = {
    "response.completed": frozenset({"completed"}),
    "response.incomplete": frozenset({"incomplete", "cancelled"}),
    "response.failed": frozenset({"failed"}),
}
LIFECYCLE = ("response.created", "response.queued", "response.in_progress")
UNNUMBERED_PREFIXES = ("keepalive", "response.steer.", "response.inject.")
ANY_LANE = object()
"""The lane is whatever the first event says, and the same from then on."""


@dataclass
class CheckedRun:
    """What a run that kept every promise looked like."""

    response_id: str | None
    terminal: dict[str, Any] | None
    items: list[dict[str, Any]]
    last_number: int

    @property
    def text(self) -> str:
        """The answer: every `output_text` part of every message, joined."""
        return "".join(
            part["text"]
            for item in self.items
            if item["type"] == "message"
            for part in item["content"]
            if part["type"] == "output_text"
        )

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The function and custom tool calls, in order."""
        return [item for item in self.items if item["type"] in ("function_call", "custom_tool_call")]


@dataclass
class GapChecker:
    """Feed it every event of one run, in order of arrival.

    start: the number the first event must have; above 0, items added before it are taken as they come.
    stream_id: the lane every event must name; None for the default lane, whose events have no such key.
    """

    start: int = 0
    stream_id: object = ANY_LANE
    items: dict[int, Item] = field(default_factory=dict)
    response_id: str | None = None
    terminal: dict[str, Any] | None = None
    last_number: int = -1
    _stage: int = -1
    _recent: deque[str] = field(default_factory=lambda: deque(maxlen=6))

    def __post_init__(self) -> None:
        self.last_number = self.start - 1

    def feed(self, event: Event) -> None:
        """Check one event. Raises GapError."""
        try:
            self._feed(event)
        except GapError as error:
            before = "\n    ".join(self._recent) or "(nothing)"
            raise GapError(f"{error}\n  event: {_brief(event)}\n  before it:\n    {before}") from None
        self._recent.append(_brief(event))

    def finish(self, *, ended: bool = True) -> CheckedRun:
        """Check that the run is whole; with `ended=False` it may still go on. Raises GapError."""
        if ended and self.terminal is None:
            before = "\n    ".join(self._recent) or "(nothing)"
            raise GapError(f"the events stop without a terminal event\n  last ones:\n    {before}")
        done = [item.done for _, item in sorted(self.items.items()) if item.done is not None]
        return CheckedRun(self.response_id, self.terminal, done, self.last_number)

    def _feed(self, event: Event) -> None:
        kind = event.get("type")
        if not isinstance(kind, str):
            raise GapError(f"an event has no type: {event!r}")
        if kind.startswith("antiphon:"):
            return
        if kind == "error":
            raise GapError("an `error` answers a create; it is never an event of a run")
        if kind.startswith(UNNUMBERED_PREFIXES):
            self._check_unnumbered(event, kind)
            return
        if self.terminal is not None:
            raise GapError(f"{kind} came after the terminal event")
        self._check_lane(event)
        self._check_number(event)
        if kind in LIFECYCLE:
            self._lifecycle(event, kind)
        elif kind in TERMINAL_STATUS:
            self._end(event, kind)
        else:
            self._item_event(event, kind)

    def _check_unnumbered(self, event: Event, kind: str) -> None:
        """These take no number. A keepalive comes out of silence, so it carries exactly the last one."""
        number = event.get("sequence_number")
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise GapError(f"{kind} has number {number!r}; it carries the last logged one")
        if kind != "keepalive":
            return
        self._check_lane(event)
        if self.terminal is not None:
            raise GapError("a keepalive came after the terminal event")
        if number != self.last_number:
            raise GapError(f"the keepalive has number {number}, the last logged one is {self.last_number}")

    def _check_lane(self, event: Event) -> None:
        lane = event.get("stream_id")
        if "stream_id" in event and not isinstance(lane, str):
            raise GapError(f"stream_id is {lane!r}; events of the default lane have no such key")
        if self.stream_id is ANY_LANE:
            self.stream_id = lane
        if lane != self.stream_id:
            raise GapError(f"stream_id is {lane!r}, expected {self.stream_id!r}")

    def _check_number(self, event: Event) -> None:
        number, expected = event.get("sequence_number"), self.last_number + 1
        if not isinstance(number, int) or isinstance(number, bool):
            raise GapError(f"sequence_number is {number!r}, not a number")
        if number != expected:
            what = "a hole" if number > expected else "a repeat"
            raise GapError(f"sequence_number is {number}, expected {expected}: {what}")
        self.last_number = number
        if (number == 0) != (event["type"] == "response.created"):
            raise GapError("response.created must be the event with number 0, and no other")

    def _check_response(self, event: Event) -> dict[str, Any]:
        response = event.get("response")
        if not isinstance(response, dict) or not isinstance(response.get("id"), str):
            raise GapError("the event has no response with an id")
        if self.response_id is None:
            self.response_id = response["id"]
        if response["id"] != self.response_id:
            raise GapError(f"response.id is {response['id']}, but it was {self.response_id}")
        return response

    def _lifecycle(self, event: Event, kind: str) -> None:
        response = self._check_response(event)
        stage = LIFECYCLE.index(kind)
        if stage <= self._stage:
            raise GapError(f"{kind} after {LIFECYCLE[self._stage]}")
        if self.items:
            raise GapError(f"{kind} after the first output item")
        if response.get("status") not in ("queued", "in_progress"):
            raise GapError(f"{kind} says status {response.get('status')!r}")
        if response.get("output") != []:
            raise GapError(f"{kind} already has output: {response.get('output')!r}")
        self._stage = stage

    def _item_event(self, event: Event, kind: str) -> None:
        if kind == "response.output_item.added":
            self._add_item(event)
            return
        index = event.get("output_index")
        if index is None:
            return
        item = self.items.get(index)
        if item is None:
            if self.start == 0:
                raise GapError(f"no item was added at output_index {index!r}")
            item = self.items[index] = Item.seen_late(event)
        item.feed(event, kind)

    def _add_item(self, event: Event) -> None:
        index, expected = event.get("output_index"), max(self.items, default=-1) + 1
        late = self.start > 0 and not self.items
        if index != expected and not late:
            raise GapError(f"output_index is {index!r}, expected {expected}: they are dense, in order")
        item = Item.added(event)
        if any(item.id == other.id for other in self.items.values()):
            raise GapError(f"item id {item.id} was used before")
        assert isinstance(index, int)
        self.items[index] = item

    def _end(self, event: Event, kind: str) -> None:
        response = self._check_response(event)
        if response.get("status") not in TERMINAL_STATUS[kind]:
            raise GapError(f"{kind} says status {response.get('status')!r}")
        if (response.get("error") is not None) != (kind == "response.failed"):
            raise GapError(f"{kind} has error {response.get('error')!r}: a failed response has one, no other")
        output = response.get("output")
        if not isinstance(output, list):
            raise GapError(f"{kind} has no list as output: {output!r}")
        if kind == "response.failed":
            self._check_failed_output(output)
        else:
            self._check_output(output, kind)
        self.terminal = response

    def _check_output(self, output: list[Any], kind: str) -> None:
        for index, item in self.items.items():
            if item.done is None:
                raise GapError(f"item {item.id} (output_index {index}) has no output_item.done before {kind}")
        if self.start == 0 and len(output) != len(self.items):
            raise GapError(f"the terminal has {len(output)} items, but {len(self.items)} were streamed")
        for index, item in self.items.items():
            if index >= len(output):
                raise GapError(f"the terminal lacks item {item.id} at output_index {index}")
            if output[index] != item.done:
                raise GapError(
                    f"output[{index}] of the terminal differs from its done item\n"
                    f"  terminal: {output[index]!r}\n  done: {item.done!r}"
                )

    def _check_failed_output(self, output: list[Any]) -> None:
        """What was done must be there, in order; what was cut may be there too."""
        order = [item.id for _, item in sorted(self.items.items())]
        by_id = {item.id: item for item in self.items.values()}
        ids = [item.get("id") for item in output]
        known = [i for i in ids if i in by_id]
        if self.start == 0 and len(known) != len(ids):
            raise GapError(f"the terminal has items never streamed: {sorted(set(ids) - set(known))}")
        if known != [i for i in order if i in known]:
            raise GapError(f"the terminal's items are in the order {known}, streamed as {order}")
        for item in by_id.values():
            if item.done is not None and item.done not in output:
                raise GapError(f"the terminal lacks the done item {item.id}, or has it changed")


def check_run(
    events: Iterable[Event], *, start: int = 0, stream_id: object = ANY_LANE, ended: bool = True
) -> CheckedRun:
    """Check the events of one run, in order of arrival. Raises GapError."""
    checker = GapChecker(start=start, stream_id=stream_id)
    for event in events:
        checker.feed(event)
    return checker.finish(ended=ended)


def _brief(event: Event) -> str:
    text = repr(dict(event))
    return text if len(text) <= 300 else text[:297] + "..."
