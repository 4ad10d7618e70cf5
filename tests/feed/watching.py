"""A dashboard for tests: does with the frames of a feed what a client does, and judges them on the way."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from tests.http.calling import until
from tests.session.play import connected
from tests.support.ws_client import Event, WsClient

WAIT_S = 30.0


class HasSocket(Protocol):
    """A server in this loop, or a process."""

    @property
    def ws_url(self) -> str: ...


class Dashboard:
    """The rows of one subscription. Raises AssertionError where a frame does not follow the one before it."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.deltas: list[dict[str, Any]] = []
        self.progress: list[dict[str, Any]] = []
        self.resets: list[str] = []
        self.bookmarks = 0
        self.epoch = ""
        self.rev = -1
        self._initial = False

    def take(self, frame: dict[str, Any]) -> None:
        kind = frame["type"].removeprefix("antiphon:feed.")
        if kind == "item":
            assert not self._initial, "an item after the initial bookmark"
            self.rows[frame["run"]["response_id"]] = frame["run"]
        elif kind == "bookmark":
            self.bookmarks += 1
            assert self._initial != bool(frame.get("initial"))
            assert not self._initial or (self.epoch, True) == (frame["epoch"], frame["rev"] >= self.rev)
            self._initial, self.epoch, self.rev = True, frame["epoch"], frame["rev"]
        elif kind == "reset":
            self.resets.append(frame["reason"])
            self.rows.clear()
            self._initial = False
        elif kind == "progress":
            self.progress += frame["runs"]
        elif kind == "delta":
            self._delta(frame)

    def _delta(self, frame: dict[str, Any]) -> None:
        assert self._initial, "a delta before the initial bookmark"
        assert (frame["epoch"], frame["prev"]) == (self.epoch, self.rev), frame
        assert frame["rev"] > frame["prev"]
        self.rev = frame["rev"]
        self.deltas.append(frame)
        run = frame["run"]
        if frame["op"] == "remove":
            self.rows.pop(run["response_id"], None)
        else:
            self.rows[run["response_id"]] = run

    @property
    def states(self) -> dict[str, str]:
        return {run_id: run["state"] for run_id, run in self.rows.items()}

    def events_of(self, run_id: str) -> list[str]:
        return [delta["event"] for delta in self.deltas if delta["run"]["response_id"] == run_id]


class Watch:
    """A dashboard on a socket."""

    def __init__(self, client: WsClient) -> None:
        self.client = client
        self.seen = Dashboard()
        self._taken = len(client.received)

    async def subscribe(self, **fields: Any) -> Event:
        """Subscribe, or subscribe again; the answer, taken as everything before it."""
        answer = await self.client.command("antiphon:feed.subscribe", **fields)
        if answer["type"] == "antiphon:feed.bookmark":
            frames = self.client.received[self._taken :]
            begun = [n for n, frame in enumerate(frames) if frame is answer][0]
            self.seen = Dashboard()
            for frame in frames[:begun]:
                if frame["type"] in ("antiphon:feed.item", "antiphon:feed.reset"):
                    self.seen.take(frame)
            self.seen.take(answer)
            self._taken += begun + 1
        return answer

    def look(self) -> Dashboard:
        """Everything that has come by now."""
        frames = self.client.received[self._taken :]
        self._taken += len(frames)
        for frame in frames:
            if frame["type"].startswith("antiphon:feed."):
                self.seen.take(frame)
        return self.seen

    async def until(self, true: Callable[[Dashboard], object], wait_s: float = WAIT_S) -> Dashboard:
        """Take what comes until something is so."""
        try:
            await until(lambda: bool(true(self.look())), wait_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; rows {self.seen.states}, last {self.seen.deltas[-3:]}") from None
        return self.seen


@contextlib.asynccontextmanager
async def watching(server: HasSocket, key: str = "test") -> AsyncIterator[Watch]:
    async with connected(server.ws_url, api_key=key) as client:
        await client.hello()
        yield Watch(client)
