"""`antiphon tail` against a real server: a table in a terminal, lines in a pipe, the events of one run."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.cli.running import antiphon, environment
from tests.support.relay import Relay
from tests.support.server import running_server
from tests.support.terminal import CTRL_C, terminal
from tests.support.ws_client import ws_client

TAIL = [sys.executable, "-m", "antiphon", "tail"]
RUNS = 20


class Tail:
    """The command with its output in a pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdout is not None
        self.out = process.stdout

    @classmethod
    async def start(cls, home: Path, url: str, *args: str) -> Tail:
        command = [*TAIL, "--url", url, *args]
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdout=pipe, stderr=subprocess.DEVNULL, env=environment(home), cwd=home
            )
        )

    async def frame(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            found: dict[str, Any] = json.loads(await self.out.readline())
            return found

    async def ends(self) -> int:
        async with asyncio.timeout(60):
            return await self.process.wait()

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


async def test_a_pipe_gets_every_event_of_every_run_through_lost_connections(tmp_path: Path) -> None:
    async with running_server() as server, Relay("127.0.0.1", urlsplit(server.url).port or 0) as relay:
        tail = await Tail.start(tmp_path, f"http://127.0.0.1:{relay.port}", "--json")
        try:
            while not (await tail.frame()).get("initial"):
                pass
            begun: set[str] = set()
            async with ws_client(server.ws_url) as client:
                for number in range(RUNS):
                    begun.add((await client.run(input=f"word {number}"))[0]["response"]["id"])
                    if number % 5 == 2:
                        relay.reset()
            revs, ended = [0], set()
            while ended < begun:
                frame = await tail.frame()
                if frame["type"] == "antiphon:feed.delta":
                    assert frame["prev"] == revs[-1]
                    revs.append(frame["rev"])
                    if frame["run"]["state"] == "completed":
                        ended.add(frame["run"]["response_id"])
            assert ended == begun and relay.accepted > 1
            tail.process.send_signal(signal.SIGINT)
            assert await tail.ends() == 130
        finally:
            await tail.stop()
        since = f"{frame['epoch']}.{revs[2]}"
        once = await antiphon(tmp_path, "tail", "--url", server.url, "--json", "--once", "--since", since)
        assert once.status == 0 and json.loads(once.out.splitlines()[0])["rev"] == revs[2]
        command = f"{sys.executable} -m antiphon tail --url {server.url} --json | head -n 2"
        pipe = asyncio.subprocess.PIPE
        cut = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", command),
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=pipe,
            stderr=pipe,
        )
        out, err = await asyncio.wait_for(cut.communicate(), 90)
        assert (len(out.splitlines()), err, cut.returncode) == (2, b"", 141)


async def test_a_table_shows_runs_as_they_come_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    async with running_server() as server, ws_client(server.ws_url) as client:
        command = [*TAIL, "--url", server.url, "--model", "antiphon/script:slow"]
        async with terminal(command, environment(tmp_path), cwd=tmp_path) as shell:
            await shell.shows("antiphon  live")
            await client.create("antiphon/script:slow")
            await client.create(input="not shown", stream_id="other")
            await shell.shows("running")
            row = re.compile(r"user:local +0:0[1-9]")  # its age
            await shell.until(lambda: row.search(shell.text) is not None, "that it moves")
            assert "antiphon/echo" not in shell.text
            shell.type(CTRL_C)
            assert await shell.ends() == 130
            assert shell.raw.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))


async def test_one_run_is_shown_to_its_end_and_the_status_says_how_it_ended(tmp_path: Path) -> None:
    async with running_server() as server, ws_client(server.ws_url) as client:
        ids = {}
        for model in ("antiphon/echo", "antiphon/script:fail"):
            ids[model] = (await client.run(model))[0]["response"]["id"]
        well = await antiphon(tmp_path, "tail", "--url", server.url, "--json", "--run", ids["antiphon/echo"])
        events = [json.loads(text) for text in well.out.splitlines()]
        assert well.status == 0 and [event["sequence_number"] for event in events] == list(range(len(events)))
        badly = await antiphon(tmp_path, "tail", "--url", server.url, "--run", ids["antiphon/script:fail"])
        assert badly.status == 1 and "response.failed  failed" in badly.out.splitlines()[-1]
        unknown = await antiphon(tmp_path, "tail", "--url", server.url, "--run", "resp_x")
        assert unknown.status == 1 and unknown.out == "" and "not found" in unknown.words
        state = await antiphon(tmp_path, "tail", "--url", server.url, "--state", "sleeping")
        assert state.status == 1 and "filter" in state.words
        rows = await antiphon(tmp_path, "tail", "--url", server.url, "--once", "--state", "failed")
        assert [text.split()[3] for text in rows.out.splitlines()] == ["failed"]
