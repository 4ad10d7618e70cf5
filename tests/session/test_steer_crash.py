"""A steer that ended its target survives a server that dies before the successor has begun (PROTOCOL 7.3.9)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.runs.service import RunService
from tests.http.calling import get
from tests.session.play import connected, started, until, write_script
from tests.session.test_steer import reason_of, steer
from tests.session.test_steer_held import input_of
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import TERMINALS


def copy_of(server: RunningServer, folder: Path) -> Path:
    """The data folder as a kill would leave it at this moment."""
    shutil.copytree(server.data_dir / "scripts", folder / "scripts")
    source = sqlite3.connect(server.data_dir / "antiphon.db")
    with contextlib.closing(source), contextlib.closing(sqlite3.connect(folder / "antiphon.db")) as target:
        source.backup(target)
    return folder


def kept(folder: Path) -> list[str]:
    """Runs that something is kept of."""
    with contextlib.closing(sqlite3.connect(folder / "antiphon.db")) as database:
        return [row[0] for row in database.execute("SELECT run_id FROM checkpoints")]


@contextlib.asynccontextmanager
async def announced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Path, str, str]]:
    """What a server leaves that died after the terminal of a steered run: a folder, that run, its successor."""
    begin, hold = RunService.start, asyncio.Event()

    async def start(self: RunService, *args: Any, response_id: str | None = None, **fields: Any) -> Any:
        if response_id is not None:
            await hold.wait()
        return await begin(self, *args, response_id=response_id, **fields)

    monkeypatch.setattr(RunService, "start", start)
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "slow", [{"delay_s": 600}])
        await client.create(model, "first")
        target = await started(client)
        await steer(client, target, "second")
        end = (await client.recv_until(lambda e: e["type"] in TERMINALS))[-1]
        assert reason_of(end) == ("incomplete", "steered")
        left = copy_of(server, folder)
        successor = server.app.registry.get(target).row()["terminal"]["successor"]
        monkeypatch.setattr(RunService, "start", begin)
        hold.set()
        await until(lambda: kept(server.data_dir) == [], "nothing being kept once the successor has its row")
    yield left, target, successor


async def test_a_successor_that_was_announced_begins_after_the_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with announced(tmp_path, monkeypatch) as (left, target, successor):
        assert kept(left) == [target]
        async with running_server(left) as server:
            response = (await get(server, f"/v1/responses/{successor}")).json()
            assert (response["previous_response_id"], response["status"]) == (target, "in_progress")
            assert await input_of(server, successor) == ["second"]
            await until(lambda: kept(left) == [], "its row being written")


async def test_a_successor_that_may_not_begin_any_more_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: RunService, *args: Any, **fields: Any) -> Any:
        raise RequestError("This model is gone.", code="model_not_found")

    async with announced(tmp_path, monkeypatch) as (left, _, successor):
        monkeypatch.setattr(RunService, "start", refuse)
        async with running_server(left) as server:
            assert (await get(server, f"/v1/responses/{successor}")).status_code == 404
            assert kept(left) == []


async def test_a_successor_that_could_not_begin_is_not_tried_again_by_the_next_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = RunService.start

    async def start(self: RunService, *args: Any, response_id: str | None = None, **fields: Any) -> Any:
        if response_id is not None:
            raise RequestError("No.", code="model_not_found")
        return await begin(self, *args, response_id=response_id, **fields)

    monkeypatch.setattr(RunService, "start", start)
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create(write_script(server.data_dir, "slow", [{"delay_s": 600}]), "first")
        await steer(client, await started(client), "second")
        failed = (await client.recv_until(lambda e: e["type"] == "response.steer.failed"))[-1]
        assert (failed["error"]["code"], failed["steer"]["input"]) == ("successor_creation_failed", "second")
        assert kept(server.data_dir) == []
