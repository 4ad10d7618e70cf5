"""`antiphon tail`: every run live in a terminal, as lines in a pipe, or the events of one run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.live import Live

from antiphon.cli.client.credentials import with_key
from antiphon.cli.client.endpoint import Endpoint
from antiphon.cli.client.exits import BROKEN_PIPE, INTERRUPTED, nobody_reads
from antiphon.cli.client.feed_rows import FeedRows, Position
from antiphon.cli.client.feed_table import event_line, line, table
from antiphon.cli.client.link import Frame, Link, Lost, Opened
from antiphon.cli.client.run_events import RunEvents

DRAW_EVERY_S = 0.25
LATER_S = 1.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class TailOptions:
    """What was asked for on the command line. filters: as in a subscription. once: what there is, and no more."""

    url: str
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tenant: str | None = None
    since: str | None = None
    run: str | None = None
    as_json: bool = False
    once: bool = False


def tail(options: TailOptions) -> int:
    """Show until it is over or the person has seen enough; gives the exit status. Raises ClientError."""
    endpoint = Endpoint.read(options.url)
    since = Position.read(options.since) if options.since is not None else None

    def work(key: str | None) -> int:
        link = Link(endpoint, name="antiphon-tail", key=key)
        if options.run is not None:
            return asyncio.run(_interruptible(_tail_run(link, options.run, options.as_json)))
        filters = {name: list(values) for name, values in options.filters.items() if values}
        feed = FeedRows(filters, tenant=options.tenant, since=since)
        return asyncio.run(_interruptible(_tail_feed(link, feed, options)))

    return with_key(endpoint, work)


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run until it ends, Ctrl-C or SIGTERM ends it, or nobody reads what it writes."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    watching = asyncio.create_task(_until_nobody_reads())
    watching.add_done_callback(lambda _: task.cancel())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return BROKEN_PIPE if watching.done() else INTERRUPTED
    except BrokenPipeError:
        return nobody_reads()
    finally:
        watching.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _until_nobody_reads() -> None:
    """A quiet feed writes nothing, and would not notice that the other end of its pipe has gone."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are told in any case
    while not poll.poll(0):  # noqa: ASYNC110 - nothing else tells of it
        await asyncio.sleep(LOOK_EVERY_S)


# One run


async def _tail_run(link: Link, run_id: str, as_json: bool) -> int:
    run = RunEvents(run_id)
    async with contextlib.aclosing(link.happenings()) as happenings:
        async for happening in happenings:
            if isinstance(happening, Lost):
                _remark(happening.why)
            elif isinstance(happening, Opened):
                link.send(run.attach())
            else:
                shown, again = run.take(happening)
                for frame in shown:
                    _write(as_json_line(frame) if as_json else event_line(frame))
                if again:
                    await asyncio.sleep(0 if shown else LATER_S)
                    link.send(run.attach())
                if run.is_over:
                    break
    return 1 if run.failed else 0


# The feed


async def _tail_feed(link: Link, feed: FeedRows, options: TailOptions) -> int:
    if options.as_json or not sys.stdout.isatty():
        return await _feed_lines(link, feed, options)
    console = Console(highlight=False)
    if options.once:
        async for _ in _feed(link, feed):
            if feed.status == "live":
                break
        console.print(table(feed, time.time(), rows=len(feed.rows) + 20, columns=console.size.width))
        return 0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        drawing = asyncio.create_task(_draw(live, console, feed))
        try:
            async for _ in _feed(link, feed):
                pass
        finally:
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)
    return 0


async def _draw(live: Live, console: Console, feed: FeedRows) -> None:
    """Ages go on when nothing happens, and a burst of events is drawn once."""
    while True:
        now = time.time()
        feed.tick(now)
        live.update(table(feed, now, rows=console.size.height, columns=console.size.width), refresh=True)
        await asyncio.sleep(DRAW_EVERY_S)


async def _feed_lines(link: Link, feed: FeedRows, options: TailOptions) -> int:
    async for frame in _feed(link, feed):
        if isinstance(frame, Lost):
            _remark(frame.why)
            continue
        if options.as_json:
            _write(as_json_line(frame))
        elif (text := line(frame)) is not None:
            _write(text)
        if options.once and feed.status == "live":
            break
    return 0


async def _feed(link: Link, feed: FeedRows) -> AsyncIterator[Frame | Lost]:
    """The frames of the feed in order, over any number of connections; no event of it is missing."""
    async with contextlib.aclosing(link.happenings()) as happenings:
        async for happening in happenings:
            if isinstance(happening, Opened):
                link.send(feed.subscribe())
            elif isinstance(happening, Lost):
                feed.lost(happening.why)
                yield happening
            else:
                taken = feed.take(happening, time.time())
                if taken == "new":
                    yield happening
                elif taken in ("gap", "later"):
                    await asyncio.sleep(LATER_S if taken == "later" else 0)
                    link.send(feed.subscribe())


def _write(text: str) -> None:
    typer.echo(text)


def _remark(why: str) -> None:
    typer.echo(f"{why}; trying to come back", err=True)


def as_json_line(frame: Frame) -> str:
    """One frame on one line."""
    # ASCII only: names come from outside, and the line may be read on a terminal.
    return json.dumps(frame, separators=(",", ":"))
