"""`antiphon chat` against a real server: in a pipe, in a terminal, through lost connections and a killed one."""

from __future__ import annotations

import asyncio
import hashlib
import io
import queue
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from antiphon.cli.chat import ChatOptions, converse
from antiphon.cli.client.endpoint import Endpoint
from antiphon.cli.client.screen import PlainScreen
from antiphon.errors import ClientError
from tests.cli.running import antiphon, environment
from tests.support.relay import DOWN, Relay
from tests.support.server import ServerProcess, running_server
from tests.support.terminal import CTRL_C, ENTER, terminal
from tests.support.ws_client import ws_client

KEY = "sk-terminal"
SLOW = """
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 40
repeat = 120
"""
APPROVE = """
[[turns]]
[[turns.steps]]
call = { name = "order", arguments = { number = 7 } }

[[turns]]
[[turns.steps]]
text = "There it is."
"""
ORDER = "tests.tools.sample_tools:order"
WORDS = [f"word{n}" for n in range(120)]


def scripts(data_dir: Path) -> Path:
    """A data folder with a model that talks for three seconds, and one that calls a tool of the server."""
    (data_dir / "scripts").mkdir(parents=True, exist_ok=True)
    (data_dir / "scripts" / "walk.toml").write_text(SLOW)
    (data_dir / "scripts" / "approve.toml").write_text(APPROVE)
    return data_dir


def words(text: str) -> list[str]:
    return re.findall(r"word\d+", text)


class Pipe:
    """A chat of this process on streams: `out` has the answers, `err` everything else."""

    def __init__(self, url: str, key: str | None = None, **options: Any) -> None:
        self._typed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.out, self.err = io.StringIO(), io.StringIO()
        screen = PlainScreen(self._typed.get, self.out, self.err)
        self.task = asyncio.create_task(converse(ChatOptions(url, **options), Endpoint.read(url), key, screen))

    def type(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            self._typed.put(line)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not true():
                assert not self.task.done(), self.err.getvalue()
                await asyncio.sleep(0.02)

    async def ends(self) -> int:
        """Nothing more is typed; gives the exit status."""
        self._typed.put("")
        async with asyncio.timeout(60):
            return await self.task


async def piped(url: str, said: str, key: str | None = None, **options: Any) -> tuple[int, str, str]:
    """What a chat with this on its standard input says: status, answers, the rest."""
    pipe = Pipe(url, key, **options)
    pipe.type(said)
    try:
        status = await pipe.ends()
    except ClientError as error:
        return 1, pipe.out.getvalue(), error.message
    return status, pipe.out.getvalue(), pipe.err.getvalue()


async def test_a_pipe_gets_the_answers_and_nothing_else_and_can_go_on_later() -> None:
    async with running_server() as server:
        status, out, err = await piped(server.url, "one\ntwo\n", model="antiphon/echo")
        assert (status, out) == (0, "one\ntwo\n")
        conversation = re.findall(r"--conversation (conv_\w+)", err)[0]
        assert f"{server.url}/?conversation={conversation}" in err
        status, out, err = await piped(server.url, "three\n", model="antiphon/echo", conversation_id=conversation)
        assert (status, out) == (0, "three\n") and "before> two\ntwo\n" in err


async def test_what_cannot_work_is_said_in_a_line_and_by_the_status(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    nobody = await antiphon(tmp_path, "chat", "--url", f"http://127.0.0.1:{port}")
    assert nobody.status == 1 and "Nothing answers" in nobody.words
    keys = [{"name": "terminal", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]
    async with running_server(auth="required", key=keys) as server:
        for key, options, said in (
            (None, {}, "Set ANTIPHON_API_KEY"),
            ("wrong", {}, "ANTIPHON_API_KEY holds no key of this server"),
            (KEY, {"conversation_id": "conv_x"}, "not found"),
            (KEY, {"attach": "resp_x"}, "not found"),
            (KEY, {"model": "nobody/knows"}, "There is no model"),
        ):
            status, out, err = await piped(server.url, "hello\n", key, **options)
            assert (status, out) == (1, "") and said in err, err


async def test_a_person_shows_a_key_is_asked_steers_stops_and_leaves(tmp_path: Path) -> None:
    keys = [{"name": "terminal", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]
    async with running_server(scripts(tmp_path), auth="required", key=keys) as server:
        command = [sys.executable, "-m", "antiphon", "chat", "--url", server.url, "--tool", "get_weather"]
        async with terminal(command, environment(tmp_path), cwd=tmp_path) as shell:
            await shell.shows("Key for")
            shell.type(f"{KEY}{ENTER}")
            await shell.shows("/help")
            shell.type(f"Tell me{ENTER}")
            await shell.shows("answer>")
            shell.type(f"Forty-two.{ENTER}")
            await shell.shows("It says: Forty-two.")
            await shell.shows("all a demo needs to know.")
            shell.type(f"/model antiphon/script:tools{ENTER}weather?{ENTER}")
            await shell.shows('get_weather({"city":"Paris"}) and waits')
            shell.type(f'{{"t": {ENTER}')
            await shell.shows("That is no JSON")
            shell.type(f'{{"t": 21}}{ENTER}warm{ENTER}')
            await shell.shows("Both cities have answered, thank you.")
            shell.type(f"/model antiphon/script:walk{ENTER}walk{ENTER}")
            await shell.until(lambda: "word3" in words(shell.text), "a few words")
            shell.type(f"again{ENTER}")
            await shell.shows("· heard")
            await shell.until(lambda: words(shell.text).count("word3") == 2, "the words again")
            shell.type(CTRL_C)
            await shell.shows("\nstopped")
            shell.type(CTRL_C)
            await shell.shows("--conversation conv_")
            assert await shell.ends() == 0
            assert KEY not in shell.text
            conversation = re.findall(r"conv_\w+", shell.text)[0]
        _, _, err = await piped(server.url, "", KEY, conversation_id=conversation)
        assert "before> Tell me\n" in err and "before> again\n" in err


async def test_a_call_that_another_client_answers_is_taken_away_and_says_who_did() -> None:
    async with running_server() as server:
        pipe = Pipe(server.url, model="antiphon/script:tools", tools=("get_weather",))
        pipe.type("weather?\n")
        await pipe.until(lambda: "Tokyo" in pipe.err.getvalue())
        async with ws_client(server.ws_url) as other:
            await other.hello()
            run_id = next(iter(server.app.engine.registry)).response_id
            answer = await other.command("antiphon:attach", response_id=run_id)
            for call, output in zip(answer["state"]["pending_calls"], ("cold", "warm"), strict=True):
                item = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
                await other.send({"type": "response.inject", "response_id": run_id, "input": [item]})
        await pipe.until(lambda: "thank you." in pipe.out.getvalue())
        assert await pipe.ends() == 0
        assert pipe.err.getvalue().count("user:local answered get_weather") == 2


async def test_a_run_of_somebody_else_is_joined_by_its_id_and_gone_on_from(tmp_path: Path) -> None:
    async with running_server(scripts(tmp_path)) as server, ws_client(server.ws_url) as other:
        await other.create("antiphon/script:walk", "where to?")
        run_id = (await other.recv_until(lambda event: event["type"] == "response.created"))[-1]["response"]["id"]
        status, out, err = await piped(server.url, "and now?\n", attach=run_id, model="antiphon/echo")
    assert (status, words(out), out.splitlines()[-1]) == (0, WORDS, "and now?"), err
    assert "user:local> where to?" in err


async def test_a_tool_that_needs_approval_is_called_when_the_person_says_yes(tmp_path: Path) -> None:
    approve = {"name": "order", "kind": "python", "entry": ORDER, "always": True, "require_approval": "always"}
    async with running_server(scripts(tmp_path), tool=[approve]) as server:
        said = "order?\nperhaps\nyes\n"
        status, out, err = await piped(server.url, said, model="antiphon/script:approve")
    assert (status, out) == (0, "There it is.\n"), err
    told = err.splitlines()
    question = 'May it call antiphon.order({"number":7})?'
    assert told[told.index(question) + 1] == "Say y or n."
    assert any(line.startswith('· antiphon.order({"number":7}) → ') for line in told), err


async def test_an_answer_is_whole_and_said_once_through_many_lost_connections(tmp_path: Path) -> None:
    async with running_server(scripts(tmp_path)) as server:
        async with Relay("127.0.0.1", urlsplit(server.url).port or 0) as relay:
            pipe = Pipe(f"http://127.0.0.1:{relay.port}", model="antiphon/script:walk")
            pipe.type("walk\n")
            for _ in range(5):
                await relay.wait_forwarded(relay.paths[DOWN].forwarded_bytes + 2_000, DOWN, 60.0)
                relay.reset()
            status = await pipe.ends()
            assert relay.accepted > 5
    assert (status, words(pipe.out.getvalue())) == (0, WORDS), pipe.err.getvalue()
    assert "the connection was lost; trying to come back" in pipe.err.getvalue()
    assert "connected again" in pipe.err.getvalue()


async def test_a_chat_survives_a_killed_server_and_says_what_became_of_the_answer(tmp_path: Path) -> None:
    """A run that is cut in the middle of a model call ends `server_lost`."""
    async with ServerProcess(scripts(tmp_path)) as server:
        port = str(urlsplit(server.url).port)
        pipe = Pipe(server.url, model="antiphon/script:walk")
        pipe.type("walk\nagain\n")
        await pipe.until(lambda: "word9" in words(pipe.out.getvalue()))
        await server.kill()
        await pipe.until(lambda: "trying to come back" in pipe.err.getvalue())
        await server.start("--port", port)
        await pipe.until(lambda: "lost: the server went away in the middle of it" in pipe.err.getvalue())
        assert await pipe.ends() == 0
    shown = words(pipe.out.getvalue())
    assert shown[:10] == WORDS[:10] and shown[-120:] == WORDS
