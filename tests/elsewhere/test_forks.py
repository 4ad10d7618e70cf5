"""What a reader is told when the log it follows forks or has a hole (PROTOCOL 6.4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from antiphon.core.cursor import Epochs
from antiphon.journal.log import RunLog
from antiphon.session.attachment import Attachment
from antiphon.transport.sse import DONE, follow

FIRST = Epochs.starting("e1")


def event(number: int, word: str = "old") -> bytes:
    return orjson.dumps({"type": "response.output_text.delta", "sequence_number": number, "delta": word})


def run_log(shown: int = 0, window_bytes: int = 1 << 20) -> RunLog:
    """A mirror with so many events."""
    log = RunLog("resp_1", FIRST, window_bytes=window_bytes, stored=True, strict=False)
    log.relay([event(number) for number in range(shown)], 0)
    return log


class FakeSocket:
    """Takes frames, as long as it is not full."""

    def __init__(self) -> None:
        self.on_writable: Callable[[], None] = lambda: None
        self.on_stalled: Callable[[], None] = lambda: None
        self.full = False
        self.unsent = 0
        self.open = True
        self.words: list[tuple[int, str]] = []

    def write_frames(self, frames: bytes) -> None:
        for part in frames.split(b"{")[1:]:
            shown = orjson.loads(b"{" + part[: part.index(b"}") + 1])
            self.words.append((shown["sequence_number"], shown["delta"]))

    def close(self, code: int, reason: str = "") -> None:
        self.open = False


class FakeJournal:
    """Reads the log's memory; a test can hold it up, or let something happen while it reads."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []

    async def read(self, log: RunLog, after: int, max_bytes: int) -> list[bytes] | None:
        page = log.page(after, max_bytes)
        await asyncio.sleep(0)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return page


class Reader:
    """An attachment and what it said."""

    def __init__(self, log: RunLog, after: int = -1, journal: FakeJournal | None = None) -> None:
        self.socket = FakeSocket()
        self.ended: list[str] = []
        self.journal = journal or FakeJournal()
        self.attachment = Attachment(
            log,
            self.journal,  # type: ignore[arg-type]
            self.socket,
            None,
            after,
            self.ended.append,
        )

    async def settle(self) -> None:
        """Let its task run as far as it comes."""
        for _ in range(20):
            await asyncio.sleep(0)


def goes_on(log: RunLog, first: int, count: int = 2) -> None:
    """Another owner writes from `first` on."""
    log.fork(first, log.epochs.forked("e2", first))
    log.relay([event(number, "new") for number in range(first, first + count)], first)


async def test_a_reader_below_the_fork_goes_on_in_the_new_epoch() -> None:
    log = run_log(3)
    reader = Reader(log)
    reader.attachment.start()
    goes_on(log, 3)
    assert reader.socket.words == [(0, "old"), (1, "old"), (2, "old"), (3, "new"), (4, "new")]
    assert reader.ended == []
    reader.attachment.stop()


@pytest.mark.parametrize("first", [1, 2])
async def test_a_reader_at_or_past_the_fork_is_told_and_gets_nothing_more(first: int) -> None:
    log = run_log(3)
    reader = Reader(log)
    reader.attachment.start()
    goes_on(log, first)
    await reader.settle()
    assert reader.ended == ["epoch_changed"]
    assert [number for number, _ in reader.socket.words] == [0, 1, 2]
    assert log.listeners == 0


async def test_a_parked_reader_hears_of_the_fork_as_well() -> None:
    log = run_log(3)
    past, below = Reader(log), Reader(log)
    for reader in (past, below):
        reader.attachment.start()
        reader.socket.full = True
    below.attachment.last = 0  # it had got less when its socket became full
    log.relay([event(3)], 3)
    goes_on(log, 2)
    await past.settle()
    assert past.ended == ["epoch_changed"]
    below.socket.full = False
    below.attachment.wake()
    await below.settle()
    assert below.socket.words[3:] == [(1, "old"), (2, "new"), (3, "new")]
    assert below.ended == []
    below.attachment.stop()


async def test_a_page_that_was_being_read_when_the_log_forked_is_read_again() -> None:
    log = run_log(5)
    reader = Reader(log)
    reader.socket.full = True
    reader.journal.meanwhile.append(lambda: goes_on(log, 3))
    reader.attachment.start()
    reader.socket.full = False
    reader.attachment.wake()
    await reader.settle()
    assert [word for _, word in reader.socket.words] == ["old", "old", "old", "new", "new"]
    reader.attachment.stop()


async def test_a_batch_that_does_not_follow_is_read_from_the_log_and_never_leaves_a_hole() -> None:
    log = run_log(3)
    reader = Reader(log)
    reader.attachment.start()
    log.skip(6)  # 3 to 5 are gone for good
    log.relay([event(6)], 6)
    await reader.settle()
    assert reader.ended == ["cursor_expired"]
    assert [number for number, _ in reader.socket.words] == [0, 1, 2]


async def chunks_of(log: RunLog, journal: FakeJournal, steps: list[Callable[[], Any]]) -> list[bytes]:
    """The whole body of an SSE reader; each time it has to wait the next of `steps` happens."""
    got: list[bytes] = []
    body = follow(log, journal, -1, 0.001)  # type: ignore[arg-type]
    async for chunk in body:
        if chunk.startswith(b":") and steps:
            steps.pop(0)()
        elif not chunk.startswith(b":"):
            got.append(chunk)
    return got


async def test_an_event_stream_below_the_fork_goes_on_with_ids_of_the_new_epoch() -> None:
    log = run_log(2)
    last = [lambda: goes_on(log, 2), lambda: log.relay([event(4, "end")], 4, ended=True)]
    body = b"".join(await chunks_of(log, FakeJournal(), last))
    assert [line for line in body.split(b"\n") if line.startswith(b"id:")] == [
        b"id: e1.0",
        b"id: e1.1",
        b"id: e2.2",
        b"id: e2.3",
        b"id: e2.4",
    ]
    assert body.endswith(DONE)


async def test_an_event_stream_past_the_fork_ends_without_terminal_and_without_the_end_marker() -> None:
    log = run_log(3)
    body = b"".join(await chunks_of(log, FakeJournal(), [lambda: goes_on(log, 2)]))
    assert body.count(b"event:") == 3 and b"e2." not in body
    assert not body.endswith(DONE)
    assert log.listeners == 0


async def test_an_event_stream_reads_a_page_again_that_forked_while_it_was_read() -> None:
    log, journal = run_log(3), FakeJournal()
    journal.meanwhile.append(lambda: goes_on(log, 1))
    end = [lambda: log.relay([event(3, "end")], 3, ended=True)]
    body = b"".join(await chunks_of(log, journal, end))
    assert body.count(b'"old"') == 1 and body.count(b'"new"') == 2
    assert body.endswith(DONE)
