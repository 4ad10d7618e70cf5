"""What `antiphon tail` keeps of the feed and of one run: no event is missed, and doubt is shown."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from antiphon.cli.client.feed_rows import KEEP_ENDED_S, STALE_AFTER_S, FeedRows, Position
from antiphon.cli.client.feed_table import event_line, line, table
from antiphon.cli.client.run_events import RunEvents
from antiphon.cli.tail import as_json_line
from antiphon.errors import ClientError

Frame = dict[str, Any]


def run(response_id: str = "resp_1", state: str = "running", **fields: Any) -> Frame:
    whole = {"response_id": response_id, "state": state, "agent": None, "model": "m", "principal": "user:anna"}
    whole |= {
        "created_at": 100.0,
        "updated_at": 100.0,
        "step": 1,
        "head": 3,
        "current_tool": None,
        "cost": None,
        "usage": None,
    }
    return whole | {"participants": [], "pending_calls": []} | fields


def item(**fields: Any) -> Frame:
    return {"type": "antiphon:feed.item", "tenant": "t", "run": run(**fields)}


def bookmark(rev: int, *, initial: bool = False, epoch: str = "e") -> Frame:
    frame = {"type": "antiphon:feed.bookmark", "tenant": "t", "epoch": epoch, "rev": rev}
    return frame | ({"initial": True, "id": "feed"} if initial else {})


def delta(rev: int, prev: int | None = None, op: str = "upsert", epoch: str = "e", **fields: Any) -> Frame:
    frame = {"type": "antiphon:feed.delta", "tenant": "t", "epoch": epoch, "rev": rev, "op": op, "data": {}}
    return frame | {
        "prev": rev - 1 if prev is None else prev,
        "event": "run.updated",
        "at": 1.0,
        "run": run(**fields),
    }


def live(**options: Any) -> FeedRows:
    """A feed that was read up to rev 5, with one run."""
    feed = FeedRows({}, **options)
    feed.subscribe()
    assert [feed.take(frame, 0.0) for frame in (item(), bookmark(5, initial=True))] == ["new", "new"]
    return feed


def test_rows_come_go_and_follow_their_deltas() -> None:
    feed = live()
    feed.take(delta(6, response_id="resp_2"), 0.0)
    feed.take(delta(9, 6, state="completed"), 0.0)
    assert {run_id: row["state"] for run_id, row in feed.rows.items()} == {
        "resp_1": "completed",
        "resp_2": "running",
    }
    feed.take(delta(10, op="remove", response_id="resp_2"), 0.0)
    assert list(feed.rows) == ["resp_1"] and feed.position == Position("e", 10) and feed.status == "live"


def test_a_gap_is_closed_by_subscribing_from_the_last_known_place() -> None:
    feed = live()
    assert feed.take(delta(8, 7), 0.0) == "gap" and feed.position == Position("e", 5)
    assert feed.subscribe()["from"] == {"epoch": "e", "rev": 5}
    assert feed.take(delta(9, 8), 0.0) == "nothing", "it is of the subscription that is being replaced"
    assert [feed.take(frame, 0.0) for frame in (bookmark(5, initial=True), delta(6))] == ["new", "new"]
    assert list(feed.rows) == ["resp_1"], "no items come, and what was known stays"


def test_a_reset_forgets_everything_and_says_so_until_it_is_read_anew() -> None:
    feed = live()
    feed.subscribe()
    feed.take({"type": "antiphon:feed.reset", "tenant": "t", "reason": "epoch"}, 0.0)
    assert feed.rows == {} and feed.status == "reset"
    for frame in (item(response_id="resp_9"), bookmark(1, initial=True, epoch="e2")):
        feed.take(frame, 0.0)
    assert list(feed.rows) == ["resp_9"] and (feed.status, feed.position) == ("live", Position("e2", 1))


def test_ended_runs_leave_after_a_minute_and_a_silent_feed_is_doubted() -> None:
    feed = live()
    feed.take(delta(6, state="failed"), 100.0)
    feed.tick(100.0 + STALE_AFTER_S)
    assert feed.status == "live"
    feed.tick(100.0 + KEEP_ENDED_S - 1)
    assert feed.status == "stale" and feed.rows
    feed.tick(100.0 + KEEP_ENDED_S)
    assert not feed.rows
    feed.take(bookmark(6), 200.0)
    assert feed.status == "live"
    feed.lost("gone")
    assert (feed.status, feed.why) == ("stale", "gone")


def test_a_feed_that_is_refused_for_good_ends_it_and_a_passing_refusal_does_not() -> None:
    feed = FeedRows({"state": ["running"]}, tenant="acme", since=Position("e", 3))
    assert feed.subscribe() == {
        "type": "antiphon:feed.subscribe",
        "id": "feed",
        "mode": "all",
        "filter": {"state": ["running"]},
        "tenant": "acme",
        "from": {"epoch": "e", "rev": 3},
    }
    error = {"type": "antiphon:error", "id": "feed", "message": "No."}
    assert feed.take(error | {"code": "server_draining", "retryable": True}, 0.0) == "later"
    with pytest.raises(ClientError, match="No"):
        feed.take(error | {"code": "tenant_not_found", "retryable": False}, 0.0)
    with pytest.raises(ClientError):
        Position.read("12")


def drawn(feed: FeedRows, now: float, rows: int = 30, columns: int = 200) -> str:
    console = Console(file=io.StringIO(), width=columns, color_system="truecolor", force_terminal=True)
    console.print(table(feed, now, rows=rows, columns=columns))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_what_an_operator_asks_for_and_nothing_from_outside_as_control() -> None:
    feed = live()
    call = {"call_id": "c", "name": "ask\x1b[2J[red]x", "deadline": 190.0, "claim": {"holder": "user:bob"}}
    fields: Frame = {"pending_calls": [call], "current_tool": "ask", "cost": 0.25, "usage": {"output_tokens": 7}}
    feed.take(delta(6, state="waiting_for_tool", model="\x1b]0;evil\x07m", **fields), 100.0)
    feed.take(delta(7, response_id="resp_2", state="failed"), 100.0)
    feed.take(
        {
            "type": "antiphon:feed.progress",
            "tenant": "t",
            "runs": [{"response_id": "resp_1", "head": 9, "output_tokens": 12}],
        },
        100.0,
    )
    shown = drawn(feed, 165.0)
    for text in (
        "live",
        "e.7",
        "1 live",
        "1 waiting",
        "1 failed",
        "12 tokens",
        "cost 0.2500",
        "1:05",
        "0:25 (user:bob)",
    ):
        assert text in shown, text
    assert "\x1b]0" not in shown and "\x1b[2J" not in shown and "[red]x" in shown
    assert shown.index("resp_1") < shown.index("resp_2"), "what goes on comes first"


def test_a_screen_that_is_too_small_says_how_many_rows_are_left_out() -> None:
    feed = live()
    for rev in range(6, 40):
        feed.take(delta(rev, response_id=f"resp_{rev}"), 0.0)
    shown = drawn(feed, 100.0, rows=12)
    assert "and 29 more" in shown and len(shown.splitlines()) <= 12


def test_lines_for_a_pipe_are_one_each() -> None:
    assert line(bookmark(1)) is None
    assert (
        line({"type": "antiphon:feed.reset", "reason": "epoch"})
        == "--- reset (epoch): what follows is told anew ---"
    )
    told = line(delta(1, model="two\nlines"))
    assert told == "00:00:01 resp_1  run.updated  running  -  two lines  user:anna"
    assert "\n" not in event_line(
        {"type": "response.output_text.delta", "sequence_number": 4, "delta": "a\nb\x1b"}
    )


def attached(response_id: str, lane: str = "att.1", **fields: Any) -> Frame:
    frame = {"type": "antiphon:attached", "id": "attach", "response_id": response_id, "stream_id": lane}
    return frame | {"epoch": "e1", "head": 3, "mode": "replay"} | fields


def event(number: int, kind: str = "response.output_text.delta", lane: str = "att.1", **fields: Any) -> Frame:
    return {"type": kind, "sequence_number": number, "stream_id": lane, "delta": str(number), **fields}


def steered(number: int) -> Frame:
    response = {"status": "incomplete", "incomplete_details": {"reason": "steered"}}
    return event(number, "response.incomplete", response=response)


def shown(run: RunEvents, *frames: Frame) -> list[int]:
    return [one["sequence_number"] for frame in frames for one in run.take(frame)[0] if "sequence_number" in one]


def test_a_run_is_followed_to_its_end_each_number_once_over_two_connections() -> None:
    followed = RunEvents("resp_1")
    assert followed.attach()["after"] == "start"
    assert shown(followed, attached("resp_1"), event(0), event(1)) == [0, 1]
    assert (followed.attach()["after"], followed.attach()["epoch"]) == (1, "e1")
    end = event(3, "response.failed", lane="att.7", response={"status": "failed"})
    frames = (attached("resp_1", "att.7"), event(1, lane="att.7"), event(2, lane="att.7"), end)
    assert shown(followed, *frames) == [2, 3]
    assert followed.is_over and followed.failed


def test_the_run_that_follows_a_steered_one_is_followed_too_also_after_a_lost_connection() -> None:
    followed = RunEvents("resp_1")
    assert shown(followed, attached("resp_1"), event(0), steered(1)) == [0, 1] and not followed.is_over
    next_run = attached("resp_2") | {"type": "antiphon:run_attached"}
    assert shown(followed, next_run, event(0)) == [0]
    followed = RunEvents("resp_1")
    shown(followed, attached("resp_1"), event(0), steered(1))
    state = {"terminal": {"status": "incomplete", "successor": "resp_2"}}
    assert followed.take(attached("resp_1", mode="ended", state=state)) == ([], True)
    assert followed.attach()["response_id"] == "resp_2"


def test_a_fork_is_shown_and_what_follows_it_is_read_again() -> None:
    followed = RunEvents("resp_1")
    shown(followed, attached("resp_1"), event(0), event(1), event(2))
    error = {"type": "antiphon:error", "id": "attach", "code": "epoch_changed", "message": "x", "epoch": "e2"}
    assert followed.take(error | {"fork": 1}) == ([error | {"fork": 1}], True)
    assert (followed.attach()["after"], followed.attach()["epoch"]) == (0, "e2")
    with pytest.raises(ClientError):
        followed.take(error | {"code": "response_not_found"})


def test_a_line_for_pipes_moves_no_cursor_and_keeps_every_character() -> None:
    frame = {"type": "antiphon:feed.item", "name": "caf\u00e9 \x9b2J \u202e \ud800", "n": 2**64}
    written = as_json_line(frame)
    assert written.isascii() and written.isprintable()
    assert json.loads(written) == frame


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (60, "run state age tool tokens"),
        (80, "run state tool waits for"),
        (100, "run state agent who age tool waits for"),
        (140, "run state agent model who age event tool tokens cost waits for"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns_and_cuts_none(columns: int, heads: str) -> None:
    feed = live()
    run_id = "resp_01a231e15d29716892873c536b24fb3d"
    call = {"call_id": "c", "name": "read_the_file", "deadline": 190.0, "claim": {"holder": "user:bob"}}
    fields: Frame = {"pending_calls": [call], "current_tool": "read_the_file", "usage": {"output_tokens": 12_345}}
    feed.take(delta(6, response_id=run_id, state="waiting_for_tool", model="gpt-5.1-codex", **fields), 100.0)
    shown = [
        line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", drawn(feed, 165.0, columns=columns)).splitlines()
    ]
    assert heads.split() in shown
    row = next(words for words in shown if words and run_id.endswith(words[0]) and len(words[0]) >= 12)
    assert "waiting_for_tool" in row and "read_the_file" in row and ("waits" not in heads or "(user:bob)" in row)
    assert not any("…" in word for words in shown for word in words)


def test_a_wide_terminal_has_whole_ids_that_can_be_copied() -> None:
    feed = live()
    run_id = "resp_01a231e15d29716892873c536b24fb3d"
    feed.take(delta(6, response_id=run_id), 100.0)
    assert run_id in drawn(feed, 165.0, columns=160)
