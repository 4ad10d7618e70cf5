"""The feed as people read it: a table that is drawn again, or lines for a pipe."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.cli.client.feed_rows import ENDED, FeedRows
from antiphon.cli.client.printable import one_line

Frame = dict[str, Any]

_STYLES = {
    "queued": "dim",
    "running": "green",
    "waiting_for_tool": "yellow",
    "completed": "dim",
    "incomplete": "dim",
    "cancelled": "dim",
    "failed": "red",
}
_STATUS = {
    "connecting": Text("connecting", "dim"),
    "live": Text("live", "bold green"),
    "stale": Text("stale: what is shown may be old", "bold yellow"),
    "reset": Text("reset: being read anew", "bold yellow"),
}
_AROUND_ROWS = 6
"""Lines of the screen that are no rows: the head, the frame of the table, and what was left out."""
_COLUMNS = (
    *("run", "state", "agent", "model", "who", "age", "step", "event", "tool"),
    *("tokens", "cost", "clients", "waits for"),
)
_IMPORTANT_FIRST = (
    "waits for",
    "tool",
    "age",
    "who",
    "tokens",
    "model",
    "agent",
    "cost",
    "event",
    "clients",
    "step",
)
"""Where a terminal is too narrow for all columns, those that fit whole, in this order. Run and state stay."""
_GAP = 2
_ID_CHARS = 12
"""Of a run's id where the whole of it has no room: the end, which is random."""
_RIGHT = frozenset({"age", "step", "event", "tokens", "cost", "clients"})


def table(feed: FeedRows, now: float, *, rows: int, columns: int) -> RenderableType:
    """The whole screen. rows, columns: its size in lines and cells."""
    shown = sorted(feed.rows.values(), key=lambda run: (run["state"] in ENDED, -run["created_at"]))
    room = max(rows - _AROUND_ROWS, 1)
    cells = [dict(zip(_COLUMNS, _cells(run, feed.progress, now), strict=True)) for run in shown[:room]]
    kept = _fitting(cells, columns)
    drawn = Table(expand=True, box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in kept:
        drawn.add_column(column, justify="right" if column in _RIGHT else "left", no_wrap=True)
    for run, row in zip(shown, cells, strict=False):
        drawn.add_row(*(Text(row[column]) for column in kept), style=_STYLES.get(run["state"], ""))
    left = len(shown) - room
    more = [Text(f"and {left} more", "dim")] if left > 0 else []
    remark = [Text(one_line(feed.why), "yellow")] if feed.why else []
    return Group(_head(feed), totals(feed), *remark, drawn, *more)


def totals(feed: FeedRows) -> Text:
    """All rows in a line."""
    runs = list(feed.rows.values())
    states = [run["state"] for run in runs]
    live = len([state for state in states if state not in ENDED])
    parts = [f"{live} live", f"{states.count('waiting_for_tool')} waiting", f"{states.count('failed')} failed"]
    parts += [f"{len(runs) - live} ended in the last minute", f"{feed.deltas} events"]
    parts.append(f"{sum(_tokens(run, feed.progress) for run in runs):,} tokens")
    costs = [run["cost"] for run in runs if run.get("cost") is not None]
    return Text(" · ".join([*parts, f"cost {sum(costs):,.4f}"] if costs else parts))


def line(frame: Frame) -> str | None:
    """A frame of the feed on one line; None where there is nothing to say."""
    kind = frame["type"]
    if kind == "antiphon:feed.delta":
        event = str(frame["event"]) + (" (removed)" if frame["op"] == "remove" else "")
        return f"{_clock(frame['at'])} {_run(frame['run'], event)}"
    if kind == "antiphon:feed.item":
        return f"{_clock(frame['run']['updated_at'])} {_run(frame['run'], '-')}"
    if kind == "antiphon:feed.reset":
        return f"--- reset ({frame['reason']}): what follows is told anew ---"
    return None


def event_line(event: Frame) -> str:
    """An event of a run on one line."""
    if event["type"] == "antiphon:error":
        return f"--- {one_line(str(event['message']))} ---"
    if event["type"].startswith("antiphon:"):
        return f"--- up to {event['head']} the run is {one_line(str(event['mode']))} ---"
    item = event.get("item") or {}
    response = event.get("response") or {}
    said = event.get("delta") or item.get("type") or response.get("status") or ""
    said = said if isinstance(said, str) else ""
    return f"{event['sequence_number']:>6} {one_line(event['type'])}  {one_line(said)}".rstrip()


def _head(feed: FeedRows) -> Text:
    position = f"  {feed.position.epoch}.{feed.position.rev}" if feed.position is not None else ""
    return Text.assemble("antiphon  ", _STATUS[feed.status], (position, "dim"))


def _fitting(rows: list[dict[str, str]], columns: int) -> list[str]:
    """The columns that are shown whole in so many cells. Where not all are, ids are shortened in `rows`."""
    if _width(rows, _COLUMNS) <= columns:
        return list(_COLUMNS)
    for row in rows:
        row["run"] = row["run"][-_ID_CHARS:]
    kept = {"run", "state"}
    for column in _IMPORTANT_FIRST:
        if _width(rows, {*kept, column}) <= columns:
            kept.add(column)
    return [column for column in _COLUMNS if column in kept]


def _width(rows: list[dict[str, str]], kept: Collection[str]) -> int:
    widest = (max([len(column), *(cell_len(row[column]) for row in rows)]) for column in kept)
    return sum(widest) + _GAP * (len(kept) - 1)


def _cells(run: Frame, progress: dict[str, Frame], now: float) -> list[str]:
    cost, clients = run.get("cost"), run.get("participants") or []
    ended = run["updated_at"] if run["state"] in ENDED else now
    cells = [
        str(run["response_id"]),
        run["state"] + (" (stalled)" if run.get("stalled") else ""),
        run.get("agent") or "-",
        run["model"],
        run["principal"],
        _age(ended - run["created_at"]),
        str(run["step"]),
        str(max(run["head"], progress.get(run["response_id"], {}).get("head", -1))),
        run.get("current_tool") or "",
        f"{_tokens(run, progress):,}",
        "" if cost is None else f"{cost:,.4f}",
        str(sum(one.get("count", 1) for one in clients)),
        ", ".join(_waits(call, now) for call in run.get("pending_calls") or []),
    ]
    return [one_line(str(cell), 40) for cell in cells]


def _waits(call: Frame, now: float) -> str:
    left = _age(max(call["deadline"] - now, 0)) if call.get("deadline") is not None else ""
    holder = (call.get("claim") or {}).get("holder")
    return f"{call['name']} {left}" + (f" ({holder})" if holder else "")


def _tokens(run: Frame, progress: dict[str, Frame]) -> int:
    """Output tokens so far."""
    moving = progress.get(run["response_id"], {}).get("output_tokens") or 0
    counted = (run.get("usage") or {}).get("output_tokens") or 0
    return max(int(moving), int(counted))


def _run(run: Frame, event: str) -> str:
    words = [run["response_id"], event, run["state"], run.get("agent") or "-", run["model"], run["principal"]]
    return "  ".join(one_line(str(word)) for word in words)


def _age(seconds: float) -> str:
    whole = max(int(seconds), 0)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
