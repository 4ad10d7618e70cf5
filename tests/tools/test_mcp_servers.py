"""MCP servers of the configuration, real ones: over stdio and over streamable HTTP."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import structlog

from antiphon.errors import StartupError
from antiphon.ports import OpenTools
from antiphon.tools.toolbox import ServerTools
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.tools.running import call, headers_seen, http_program, named, notes_of, opened, stdio, toolbox, until
from tests.upstream.calling import FastClock

PROGRAM = {"type": "mcp", "server_label": "program"}
ALL = ["echo", "look", "hang", "die", "big", "fail", "structured", "picture", "variable"]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def only_error(tools: OpenTools) -> str:
    (one,) = tools.lists
    assert not one.tools and one.error is not None
    return one.error


async def listed(box: ServerTools, *, tenant: str = "acme", **more: Any) -> list[str]:
    async with opened(box, {**PROGRAM, **more}, tenant=tenant) as tools:
        assert tools.lists[0].error is None
        return list(named(tools))


async def test_its_tools_are_listed_with_their_schemas_and_called(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        (one,) = tools.lists
        assert (one.server_label, one.listed, list(named(tools))) == ("program", True, ALL)
        spec = named(tools)["echo"].spec
        assert (spec.description, spec.parameters["required"]) == ("Does echo.", ["text"])
        assert (spec.server_label, spec.item_type, spec.needs_approval) == ("program", "mcp_call", False)
        assert (await call(named(tools)["echo"], {"text": "hällo"})).output == "hällo"


async def test_a_program_is_started_when_first_needed_shared_by_runs_and_ended_with_the_server(
    notes: Path,
) -> None:
    async with toolbox(tool=[stdio(notes)]) as box:
        assert not notes_of(notes, "start")
        async with opened(box, PROGRAM) as first, opened(box, PROGRAM, tenant="other") as second:
            await call(named(first)["echo"], {"text": "1"})
            await call(named(second)["echo"], {"text": "2"})
        (pid,) = map(int, notes_of(notes, "start"))
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_content_becomes_text(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        assert (await call(named(tools)["structured"])).output == '{"answer":42}'
        assert '"mimeType":"image/png"' in ((await call(named(tools)["picture"])).output or "")
        assert (await call(named(tools)["fail"])).error == "the cupboard is bare"


async def test_a_call_that_does_not_fit_the_schema_never_reaches_the_server(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        assert "required property" in ((await call(named(tools)["echo"], {})).error or "")
    assert not notes_of(notes, "call")


async def test_it_gets_the_variables_named_for_it_and_no_others(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROGRAM_KEY", "for the program")
    monkeypatch.setenv("OTHER_KEY", "for somebody else")
    async with toolbox(tool=[stdio(notes, env_keys=["PROGRAM_KEY"])]) as box, opened(box, PROGRAM) as tools:
        assert (await call(named(tools)["variable"], {"text": "PROGRAM_KEY"})).output == "for the program"
        assert (await call(named(tools)["variable"], {"text": "OTHER_KEY"})).output == "not set"
    with pytest.raises(StartupError, match="NO_SUCH_KEY"):
        async with toolbox(tool=[stdio(notes, env_keys=["NO_SUCH_KEY"])]):
            pass


async def test_lines_that_are_no_messages_are_passed_over(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, "--noise")]) as box:
        assert await listed(box) == ALL


async def test_a_call_that_hangs_is_stopped_at_the_server_too_and_others_go_on(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, timeout_s=0.5)]) as box, opened(box, PROGRAM) as tools:
        assert "within 0.5 s" in ((await call(named(tools)["hang"])).error or "")
        await until(lambda: notes_of(notes, "stopped") == ["hang"], "the server was told")
        assert (await call(named(tools)["echo"], {"text": "still here"})).output == "still here"


async def test_an_answer_of_50_mb_is_an_error_and_the_server_lives_on(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        error = (await call(named(tools)["big"], {"bytes": 50_000_000})).error
        assert "larger than 8388608 bytes" in (error or "")
        assert (await call(named(tools)["echo"], {"text": "still here"})).output == "still here"
        assert len(notes_of(notes, "start")) == 1


async def test_death_in_mid_call_is_an_error_and_the_next_call_after_a_pause_starts_it_again(notes: Path) -> None:
    clock = FastClock()
    async with toolbox(clock=clock, tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        echo = named(tools)["echo"]
        assert (await call(named(tools)["die"])).error == "MCP server 'program': it broke off the connection."
        assert "not started again for another 0.5 s" in ((await call(echo, {"text": "too soon"})).error or "")
        clock.at += 0.6
        assert (await call(echo, {"text": "back"})).output == "back"
        assert notes_of(notes, "call").count("die") == 1, "a call that may have been carried out is not repeated"


async def test_death_while_idle_is_noticed(notes: Path) -> None:
    clock = FastClock()
    async with toolbox(clock=clock, tool=[stdio(notes)]) as box, opened(box, PROGRAM) as tools:
        echo = named(tools)["echo"]
        with structlog.testing.capture_logs() as lines:
            os.kill(int(notes_of(notes, "start")[0]), signal.SIGKILL)
            await until(lambda: any(line["event"] == "mcp_server_ended" for line in lines), "noticed")
        clock.at += 0.6
        assert (await call(echo, {"text": "back"})).output == "back"


async def test_one_that_dies_in_the_list_is_an_error_of_its_list_and_waits_longer_each_time(notes: Path) -> None:
    clock = FastClock()
    async with toolbox(clock=clock, tool=[stdio(notes, "--list", "die")]) as box:
        pauses = []
        for _ in range(3):
            async with opened(box, PROGRAM) as tools:
                assert "broke off the connection" in only_error(tools)
            async with opened(box, PROGRAM) as tools:
                pauses.append(float(only_error(tools).split()[-2]))
            clock.at += pauses[-1] + 0.01
        assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("options", "timeout_s", "said"),
    [
        (["--list", "hang"], 3, "did not list its tools within 3 s"),
        (["--list", "endless"], 30, "has no end"),
        (["--many", "10000"], 30, "it has 10009 tools, more than 256; choose with allowed_tools"),
    ],
)
async def test_a_list_that_cannot_be_used_is_an_error_that_says_why(
    notes: Path, options: list[str], timeout_s: float, said: str
) -> None:
    async with toolbox(tool=[stdio(notes, *options)], tools={"list_timeout_s": timeout_s}) as box:
        async with opened(box, PROGRAM) as tools:
            assert said in only_error(tools)


async def test_of_10_000_tools_some_can_be_chosen(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, "--many", "10000")]) as box:
        assert await listed(box, allowed_tools=["tool_9999", "echo"]) == ["echo", "tool_9999"]


async def test_tools_with_bad_schemas_are_left_out_and_nothing_is_fetched_for_them(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, "--list", "bad-schema")]) as box:
        with structlog.testing.capture_logs() as lines:
            assert await listed(box) == ALL
    (line,) = [line for line in lines if line["event"] == "mcp_tools_left_out"]
    assert line["count"] == 2


async def test_a_program_that_is_not_there_is_an_error_of_its_list() -> None:
    tool = {"name": "program", "kind": "mcp", "command": "/no/such/program"}
    async with toolbox(tool=[tool]) as box, opened(box, PROGRAM) as tools:
        assert "could not be started (No such file or directory)" in only_error(tools)


async def test_a_list_is_kept_for_its_time_by_tenant(notes: Path) -> None:
    clock = FastClock()
    async with toolbox(clock=clock, tool=[stdio(notes)], tools={"list_ttl_s": 60}) as box:
        await listed(box)
        await listed(box)
        assert len(notes_of(notes, "list")) == 1
        await listed(box, tenant="other")
        assert len(notes_of(notes, "list")) == 2
        clock.at += 61
        await listed(box)
        assert len(notes_of(notes, "list")) == 3


async def test_the_configuration_bounds_what_a_request_may_choose(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, allowed_tools=["echo", "look"])]) as box:
        assert await listed(box) == ["echo", "look"]
        assert await listed(box, allowed_tools=["look", "die"]) == ["look"]
        assert await listed(box, allowed_tools={"read_only": True}) == ["look"]
        assert await listed(box, allowed_tools={"tool_names": ["echo"], "read_only": False}) == ["echo"]
        assert await listed(box, allowed_tools=[]) == []


async def approvals(box: ServerTools, asked: Any) -> set[str]:
    async with opened(box, {**PROGRAM, "require_approval": asked}) as tools:
        return {name for name, tool in named(tools).items() if tool.spec.needs_approval}


async def test_a_request_may_ask_for_more_approvals_than_the_configuration_never_for_fewer(notes: Path) -> None:
    async with toolbox(tool=[stdio(notes, allowed_tools=["echo", "look"])]) as box:
        assert await approvals(box, None) == set()
        assert await approvals(box, "always") == {"echo", "look"}
        assert await approvals(box, {"always": {"tool_names": ["echo"]}}) == {"echo"}
        assert await approvals(box, {"never": {"tool_names": ["echo"]}}) == set()
    async with toolbox(tool=[stdio(notes, allowed_tools=["echo", "look"], require_approval="always")]) as box:
        assert await approvals(box, "never") == {"echo", "look"}


async def test_side_effects_are_assumed_unless_the_tool_or_the_operator_says_otherwise(notes: Path) -> None:
    for table, expected in (
        ({}, {"echo": True, "look": False}),
        ({"side_effects": False}, {"echo": False, "look": False}),
    ):
        async with toolbox(tool=[stdio(notes, allowed_tools=["echo", "look"], **table)]) as box:
            async with opened(box, PROGRAM) as tools:
                assert {name: tool.spec.side_effects for name, tool in named(tools).items()} == expected


async def test_one_that_is_always_offered_or_named_for_the_run_needs_no_request_and_is_not_shown(
    notes: Path,
) -> None:
    async with toolbox(tool=[stdio(notes)]) as box:
        async with opened(box) as tools:
            assert not tools.lists
        async with opened(box, always=["program"]) as tools:
            assert [(one.server_label, one.listed) for one in tools.lists] == [("program", False)]
        async with opened(box, PROGRAM, always=["program"]) as tools:
            assert [(one.server_label, one.listed) for one in tools.lists] == [("program", True)]
    async with toolbox(tool=[stdio(notes, always=True)]) as box, opened(box) as tools:
        assert list(named(tools)) == ALL


def over_http(port: int, **more: Any) -> dict[str, Any]:
    return {"name": "program", "kind": "mcp", "url": f"http://127.0.0.1:{port}/mcp", **more}


async def test_over_http_its_headers_come_from_the_environment_and_show_nowhere(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROGRAM_KEY", "Bearer quite-secret")
    with structlog.testing.capture_logs() as lines:
        async with http_program(notes) as port:
            async with toolbox(tool=[over_http(port, headers_env={"Authorization": "PROGRAM_KEY"})]) as box:
                async with opened(box, PROGRAM) as tools:
                    echo = named(tools)["echo"]
                    result = await call(echo, {"text": "you sent quite-secret"})
                    assert result.output == "you sent [secret]"
                    shown = [repr(echo.spec), repr(vars(echo)), repr(lines), repr(vars(box))]
    assert {headers["authorization"] for headers in headers_seen(notes)} == {"Bearer quite-secret"}
    assert not [text for text in shown if "quite-secret" in text]


async def test_over_http_a_large_answer_is_an_error_and_the_session_lives_on(notes: Path) -> None:
    async with http_program(notes) as port, toolbox(tool=[over_http(port)]) as box:
        async with opened(box, PROGRAM) as tools:
            error = (await call(named(tools)["big"], {"bytes": 20_000_000})).error
            assert "larger than 8388608 bytes" in (error or "")
            assert (await call(named(tools)["echo"], {"text": "still here"})).output == "still here"


async def test_over_http_death_in_mid_call_is_an_error_and_a_new_server_is_used_at_once(notes: Path) -> None:
    async with http_program(notes) as port, toolbox(tool=[over_http(port)]) as box:
        async with opened(box, PROGRAM) as tools:
            echo = named(tools)["echo"]
            assert "could not be reached" in ((await call(named(tools)["die"])).error or "")
            assert "could not be reached" in ((await call(echo, {"text": "nobody"})).error or "")
            async with http_program(notes, "--port", str(port)):
                assert (await call(echo, {"text": "back"})).output == "back"


async def test_over_http_a_refusal_is_named(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAM_KEY", "Bearer wrong-token")
    async with http_program(notes) as port:
        async with toolbox(tool=[over_http(port, headers_env={"Authorization": "PROGRAM_KEY"})]) as box:
            async with opened(box, PROGRAM) as tools:
                assert only_error(tools) == "MCP server 'program': it answered HTTP 401."


async def test_over_http_a_hanging_call_is_stopped(notes: Path) -> None:
    async with http_program(notes) as port, toolbox(tool=[over_http(port, timeout_s=0.5)]) as box:
        async with opened(box, PROGRAM) as tools:
            assert "within 0.5 s" in ((await call(named(tools)["hang"])).error or "")
            await until(lambda: notes_of(notes, "stopped") == ["hang"], "the server was told")


class OldServer:
    """STUB: a server of the protocol before 2026, which keeps sessions and has just lost the first."""

    def __init__(self) -> None:
        self.sessions = 0
        self.calls: list[str] = []

    async def __call__(self, request: StubRequest, conn: StubConn) -> None:
        method = request.body["method"] if request.method == "POST" else None
        if method == "initialize":
            self.sessions += 1
            info = {"name": "old", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info
            }  # fmt: skip
            return self.send(request, conn, result, f"mcp-session-id: s{self.sessions}\r\n")
        if method == "tools/list":
            return self.send(request, conn, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if method == "tools/call":
            self.calls.append(request.headers["mcp-session-id"])
            if self.calls[-1] != "s1":
                return self.send(request, conn, {"content": [{"type": "text", "text": "done"}]})
        accepted = method is not None and method.startswith("notifications/")
        conn.write(b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % (202 if accepted else 404))

    def send(self, request: StubRequest, conn: StubConn, result: Any, head: str = "") -> None:
        data = json.dumps({"jsonrpc": "2.0", "id": request.body["id"], "result": result})
        head = f"content-type: application/json\r\n{head}content-length: {len(data)}\r\n"
        conn.write(f"HTTP/1.1 200 OK\r\n{head}\r\n{data}".encode())


async def test_over_http_a_session_the_server_has_forgotten_is_opened_anew_and_the_call_made_once() -> None:
    old = OldServer()
    async with StubUpstream(old) as stub, toolbox(tool=[over_http(stub.port)]) as box:
        async with opened(box, PROGRAM) as tools:
            assert (await call(named(tools)["echo"])).output == "done"
    assert old.calls == ["s1", "s2"]
