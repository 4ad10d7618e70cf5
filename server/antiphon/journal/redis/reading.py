"""Reading a log: the stream while Redis has it, the store for what was moved there."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.bus.redis import keys
from antiphon.errors import BusError
from antiphon.journal.redis.exchange import ask, ask_all
from antiphon.journal.redis.flusher import RedisSide
from antiphon.store.responses import ResponseReader

FIRST_ENTRIES = 2
"""Entries asked for in a first step, when nobody knows yet how big they are: each may hold the largest event."""

_MOST_ENTRIES = 256
_STEP_BYTES = 1024 * 1024
"""About as much as one step reads."""

Entry = tuple[bytes, dict[bytes, bytes]]


async def entries(bus: RedisSide, run_id: str, start: str, count: int) -> list[Entry]:
    """Entries of a stream from an id on (`(` before it: behind it). Raises BusError."""
    found: list[Entry] = await ask(bus.commands, "XRANGE", keys.run_log(run_id), start, "+", "COUNT", count)
    return found


def next_count(page: Sequence[Entry]) -> int:
    """How many entries to ask for next, as big as these are."""
    size = sum(len(entry[1][b"p"]) for entry in page)
    return max(1, min(_MOST_ENTRIES, _STEP_BYTES * len(page) // max(1, size)))


def number_of(entry: Entry) -> int:
    """The number of the first event of an entry."""
    return int(entry[0].partition(b"-")[0]) - 1


class LogReader:
    """Durable events by run id."""

    def __init__(self, bus: RedisSide, reader: ResponseReader) -> None:
        self._bus = bus
        self._reader = reader

    async def events(self, run_id: str, after: int, max_bytes: int) -> tuple[int, list[bytes]]:
        """See `Journal.events`."""
        try:
            whole, first, events = await self._from_stream(run_id, after, max_bytes)
        except BusError:
            # What was moved can be read without Redis.
            kept, older = await self._reader.events(run_id, after, max_bytes)
            if older and kept == after + 1:
                return kept, older
            raise
        if whole:
            return first, events
        kept, older = await self._reader.events(run_id, after, max_bytes)
        if older and (not events or kept < first):
            return kept, older
        return first, events

    async def _from_stream(self, run_id: str, after: int, max_bytes: int) -> tuple[bool, int, list[bytes]]:
        """From the newest entry that begins at or before the number wanted; first, whether there is one: then the
        store has nothing that is missing here."""
        wanted = after + 1
        stream, count = keys.run_log(run_id), FIRST_ENTRIES
        at, behind = await ask_all(
            self._bus.commands,
            [
                ("XREVRANGE", stream, f"{wanted + 1}-0", "-", "COUNT", 1),
                ("XRANGE", stream, f"({wanted + 1}-0", "+", "COUNT", count),
            ],
        )
        first, size = wanted, 0
        events: list[bytes] = []
        page: list[Entry] = [*at, *behind]
        more = len(behind) == count
        while page:
            for entry in page:
                number, payload = number_of(entry), entry[1][b"p"]
                new = payload.split(b"\n")[max(0, wanted - number) :]
                if not new:
                    continue
                if events and number != first + len(events):
                    return bool(at), first, events  # the hole is told by the next page
                if not events:
                    first = max(number, wanted)
                events.extend(new)
                size += len(payload)
                if size >= max_bytes:
                    return bool(at), first, events
            if not more:
                break
            count = next_count(page)
            page = await entries(self._bus, run_id, "(" + page[-1][0].decode(), count)
            more = len(page) == count
        return bool(at), first, events
