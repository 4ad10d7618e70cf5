"""The example of a dashboard on Redis shows every event once, whatever happens to its connection."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.bus.redis.keys import feed
from tests.ops.feed_nodes import LIFE, node
from tests.support.redis import RedisServer, redis_server
from tests.support.sdk_processes import ROOT, SCRIPT_S, clean_env

EXAMPLE = ROOT / "examples" / "python" / "lifecycle.py"
LINE = re.compile(r"^ *(\d+) (resp_\w+) (run\.\S+) +(\w+)$")


@asynccontextmanager
async def dashboard(server: RedisServer) -> AsyncIterator[tuple[Process, asyncio.StreamReader]]:
    """The example, and what it prints."""
    env = {**clean_env(), "REDIS_URL": server.url, "ANTIPHON_TENANT": "acme"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), env=env, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        await process.communicate()


async def shown(output: asyncio.StreamReader, count: int, remarks: list[str]) -> list[tuple[int, str, str]]:
    """The next entries: (rev, run, event). Lines of another kind go to `remarks`."""
    found: list[tuple[int, str, str]] = []
    async with asyncio.timeout(SCRIPT_S):
        while len(found) < count:
            line = (await output.readline()).decode().rstrip("\n")
            match = LINE.match(line)
            if match is None:
                assert line.startswith("---"), line
                remarks.append(line)
            else:
                found.append((int(match[1]), match[2], match[3]))
    return found


async def test_the_dashboard_shows_each_event_once_when_its_connection_is_killed() -> None:
    remarks: list[str] = []
    with redis_server() as server:
        async with node(server) as one, dashboard(server) as (_, output):
            run = one.begin("resp_1", "acme")
            first = await shown(output, 2, remarks)
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
            one.end(run)
            one.end(one.begin("resp_2", "acme"))
            rest = await shown(output, 8, remarks)
    assert [rev for rev, _, _ in first + rest] == list(range(1, 11))
    assert [event for _, run_id, event in first + rest if run_id == "resp_1"] == LIFE
    assert not [remark for remark in remarks if "gone for good" in remark or "anew" in remark]


async def test_the_dashboard_begins_anew_with_a_server_that_lost_everything() -> None:
    remarks: list[str] = []
    with redis_server() as server:
        async with node(server) as one, dashboard(server) as (_, output):
            run = one.begin("resp_1", "acme")
            await shown(output, 2, remarks)
            server.kill()
            server.start()
            one.end(run)
            again = await shown(output, 3, remarks)
    assert [rev for rev, _, _ in again] == [1, 2, 3] and "--- the feed began anew ---" in remarks


async def test_the_dashboard_says_how_many_entries_are_gone_for_good() -> None:
    remarks: list[str] = []
    with redis_server() as server:
        async with node(server) as one, dashboard(server) as (process, output):
            run = one.begin("resp_1", "acme")
            await shown(output, 2, remarks)
            process.send_signal(signal.SIGSTOP)
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
            one.end(run)
            await one.sent()
            server.command("XTRIM", feed("acme"), "MAXLEN", 1)
            process.send_signal(signal.SIGCONT)
            rest = await shown(output, 1, remarks)
    assert rest == [(5, "resp_1", "run.completed")] and "--- 2 entries are gone for good ---" in remarks
