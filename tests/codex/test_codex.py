"""The Codex CLI, unmodified, does a turn with a shell command over one WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.codex.wire import Wire, read_wire
from tests.support import chat_stub
from tests.support.relay import DOWN, UP, Relay
from tests.support.sdk_processes import need_codex, run_process
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, in_turn

pytestmark = pytest.mark.codex
TURN_S = 60.0
COMMAND_OUTPUT = "hello"
RUN_COMMAND = 'call = { name = "exec_command", arguments = { cmd = "echo hello" } }'
"""What the demo model does with the first function tool of Codex, too."""
CONFIG = """\
model = "{model}"
model_provider = "antiphon"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.antiphon]
name = "antiphon"
base_url = "{base_url}"
wire_api = "responses"
env_key = "ANTIPHON_CODEX_KEY"
supports_websockets = true
request_max_retries = 1
stream_max_retries = 2
stream_idle_timeout_ms = 20000
websocket_connect_timeout_ms = 5000
"""


@dataclass
class Codex:
    """A Codex with a home and a working folder of its own, that talks through a relay."""

    command: Path
    folder: Path
    relay: Relay

    def use(self, model: str) -> None:
        """Write the configuration."""
        config = CONFIG.format(model=model, base_url=f"http://127.0.0.1:{self.relay.port}/v1")
        (self.folder / "home" / "config.toml").write_text(config)

    def script(self, *steps: str, then: str | None = None) -> None:
        """Use a model that plays these steps on every call; then: what it plays once a tool has answered."""
        lines = ["[[turns]]", *(line for step in steps for line in ("[[turns.steps]]", step))]
        if then is not None:
            lines += ["[[turns]]", "[[turns.steps]]", then]
        (self.folder / "server" / "scripts" / "ends.toml").write_text("\n".join(lines))
        self.use("antiphon/script:ends")

    async def exec(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """Run `codex exec`; what it reports, one JSON object a line. code: the exit status it must have."""
        finished = await run_process(
            [self.command, "exec", *arguments[:-1], "--skip-git-repo-check", "--json", arguments[-1]],
            env={"CODEX_HOME": str(self.folder / "home"), "ANTIPHON_CODEX_KEY": "any"},
            cwd=self.folder / "work",
            wait_s=TURN_S,
        )
        assert finished.code == code, f"{finished.stdout}\n{finished.stderr}"
        return [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]

    @property
    def wire(self) -> Wire:
        return read_wire(self.relay.seen(UP))


@pytest.fixture
async def codex(tmp_path: Path) -> AsyncIterator[Codex]:
    command = need_codex()
    for name in ("home", "work", "server/scripts"):
        (tmp_path / name).mkdir(parents=True)
    async with running_server(tmp_path / "server") as server:
        target = urlsplit(server.url)
        assert target.port is not None
        async with Relay("127.0.0.1", target.port, record=True) as relay:
            yield Codex(command, tmp_path, relay)


def completed(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The items of one kind that Codex says it completed."""
    return [line["item"] for line in lines if line["type"] == "item.completed" and line["item"]["type"] == kind]


def ran(lines: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Status and output of each command that Codex ran."""
    commands = completed(lines, "command_execution")
    return [(command["exit_code"], command["aggregated_output"].strip()) for command in commands]


async def test_a_turn_with_a_command_takes_one_upgrade_three_creates_and_no_post(codex: Codex) -> None:
    codex.script(RUN_COMMAND, then='text = "That was it."')
    lines = await codex.exec("run the command")

    assert ran(lines) == [(0, COMMAND_OUTPUT)]
    assert completed(lines, "agent_message")[-1]["text"] == "That was it."
    assert lines[-1]["type"] == "turn.completed"
    assert lines[-1]["usage"]["output_tokens"] > 0

    wire = codex.wire
    assert (len(wire.upgrades), wire.posts) == (1, 0)
    warm_up, turn, output = wire.creates
    assert warm_up["generate"] is False
    assert "previous_response_id" in turn
    assert [item["type"] for item in output["input"]] == ["function_call_output"]
    assert output["previous_response_id"] not in (None, turn["previous_response_id"])


async def test_a_call_of_the_server_is_passed_over_and_costs_the_history_once_more(codex: Codex) -> None:
    codex.use("antiphon/demo")
    lines = await codex.exec("run the command")
    assert ran(lines) == [(0, COMMAND_OUTPUT)]
    assert COMMAND_OUTPUT in completed(lines, "agent_message")[-1]["text"]
    assert lines[-1]["type"] == "turn.completed"
    wire = codex.wire
    assert (len(wire.upgrades), len(wire.creates), wire.posts) == (1, 3, 0)
    output = wire.creates[-1]
    assert output.get("previous_response_id") is None
    assert output["input"][-1]["type"] == "function_call_output"
    assert "mcp_call" not in [item["type"] for item in output["input"]]


async def test_a_resumed_session_goes_on_with_its_whole_history(codex: Codex) -> None:
    codex.use("antiphon/demo")
    first = await codex.exec("run the command")
    thread = next(line["thread_id"] for line in first if line["type"] == "thread.started")
    before = len(codex.wire.creates)
    lines = await codex.exec("resume", thread, "and once more")
    assert lines[-1]["type"] == "turn.completed"
    wire = codex.wire
    assert (len(wire.upgrades), wire.posts) == (2, 0)
    assert any("function_call_output" in json.dumps(create["input"]) for create in wire.creates[before:])


async def test_a_connection_cut_in_mid_answer_is_taken_up_with_a_new_socket_and_the_whole_input(
    codex: Codex,
) -> None:
    codex.script('text = "one two three four five six seven eight nine ten"\nrate = 20')
    answering = asyncio.create_task(codex.exec("count"))
    await codex.relay.wait_seen(b'"two "', DOWN, TURN_S)
    codex.relay.reset()
    lines = await answering
    assert completed(lines, "agent_message")[-1]["text"] == "one two three four five six seven eight nine ten"
    wire = codex.wire
    assert (len(wire.upgrades), wire.posts) == (2, 0)
    assert [create.get("previous_response_id") is None for create in wire.creates] == [True, False, True]


@pytest.mark.parametrize("code", ["server_error", "server_lost", "upstream_unavailable", "storage_unavailable"])
async def test_a_failure_worth_retrying_is_retried_on_the_socket_and_then_over_http(
    codex: Codex, code: str
) -> None:
    codex.script(f'error = {{ code = "{code}", message = "m" }}')
    lines = await codex.exec("go", code=1)
    assert lines[-1]["type"] == "turn.failed"
    wire = codex.wire
    assert (len(wire.creates), wire.posts) == (1 + 3, 3)


@pytest.mark.parametrize(
    "end",
    ['incomplete = "loop_halted"', 'incomplete = "max_output_tokens"', 'error = { code = "invalid_prompt" }'],
)
async def test_an_end_on_purpose_is_not_retried(codex: Codex, end: str) -> None:
    codex.script('text = "so far"', end)
    lines = await codex.exec("go", code=1)
    assert lines[-1]["type"] == "turn.failed"
    wire = codex.wire
    assert (len(wire.creates), wire.posts) == (1 + 1, 0)


async def test_a_turn_with_a_command_works_in_front_of_a_chat_completions_server(tmp_path: Path) -> None:
    command = need_codex()
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    handler = in_turn(
        chat_stub.play(chat_stub.call_chunks(("c1", "exec_command", '{"cmd": "echo hello"}'))),
        chat_stub.play(chat_stub.text_chunks("That was ", "it.")),
    )
    async with StubUpstream(handler) as stub:
        upstream = {"name": "local", "url": stub.url, "api": "chat", "models": ["local-model"]}
        async with running_server(
            tmp_path / "server", upstream=[{**upstream, "ignore_tools": ["web_search"]}]
        ) as server:
            target = urlsplit(server.url)
            assert target.port is not None
            async with Relay("127.0.0.1", target.port, record=True) as relay:
                codex = Codex(command, tmp_path, relay)
                codex.use("local-model")
                lines = await codex.exec("run the command")
        sent = (await stub.request(1)).body["messages"]
    assert ran(lines) == [(0, COMMAND_OUTPUT)]
    assert completed(lines, "agent_message")[-1]["text"] == "That was it."
    assert [message["role"] for message in sent[-2:]] == ["assistant", "tool"]
