"""MCP servers that list tools which are no tools, or talk too much on the side: they spoil nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from antiphon.tools.mcp_stderr import StderrLines
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.tools.running import call, named, opened, stdio, toolbox, until

ASKED = {"type": "mcp", "server_label": "program"}
GOOD = {"name": "good", "inputSchema": {"type": "object"}}
BAD: list[Any] = [
    {"name": "no_schema"},
    {"name": "list_schema", "inputSchema": []},
    {"name": "odd_schema", "inputSchema": {"type": "nonsense"}},
    {"name": 5, "inputSchema": {"type": "object"}},
    {"name": "odd_description", "description": {}, "inputSchema": {"type": "object"}},
    "no tool at all",
    None,
]


class Lister:
    """STUB: a server that lists what a test gives it."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self.pages = pages
        self.lists = 0

    async def __call__(self, request: StubRequest, conn: StubConn) -> None:
        method = request.body["method"] if request.method == "POST" else None
        result: dict[str, Any]
        if method == "initialize":
            info = {"name": "lister", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            self.lists += 1
            result = self.pages[int((request.body.get("params") or {}).get("cursor") or 0)]
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
        else:
            accepted = method is not None and method.startswith("notifications/")
            conn.write(b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % (202 if accepted else 404))
            return
        data = json.dumps({"jsonrpc": "2.0", "id": request.body["id"], "result": result})
        head = f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
        conn.write(f"HTTP/1.1 200 OK\r\n{head}\r\n{data}".encode())


@pytest.mark.parametrize("bad", BAD, ids=str)
async def test_a_tool_that_is_not_valid_mcp_is_left_out_alone_and_counted(bad: Any) -> None:
    lister = Lister({"tools": [bad, GOOD]})
    async with StubUpstream(lister) as stub:
        tool = {"name": "program", "kind": "mcp", "url": f"http://127.0.0.1:{stub.port}/mcp"}
        with structlog.testing.capture_logs() as lines:
            async with toolbox(tool=[tool]) as box, opened(box, ASKED) as tools:
                assert [one.error for one in tools.lists] == [None]
                assert list(named(tools)) == ["good"]
                assert (await call(named(tools)["good"])).output == "done"
    (line,) = [line for line in lines if line["event"] == "mcp_tools_left_out"]
    assert line["count"] == 1


async def test_all_pages_are_read_without_their_bad_tools_and_only_a_bad_list_is_asked_for_twice() -> None:
    second = {**GOOD, "name": "second"}
    lister = Lister(
        {"tools": [GOOD], "nextCursor": "1"}, {"tools": [*BAD, second], "nextCursor": "2"}, {"tools": []}
    )
    async with StubUpstream(lister) as stub:
        tool = {"name": "program", "kind": "mcp", "url": f"http://127.0.0.1:{stub.port}/mcp"}
        async with toolbox(tool=[tool]) as box, opened(box, ASKED) as tools:
            assert list(named(tools)) == ["good", "second"]
    assert lister.lists == 4


async def test_an_answer_that_is_no_list_at_all_stays_an_error() -> None:
    async with StubUpstream(Lister({"tools": 5})) as stub:
        tool = {"name": "program", "kind": "mcp", "url": f"http://127.0.0.1:{stub.port}/mcp"}
        async with toolbox(tool=[tool]) as box, opened(box, ASKED) as tools:
            assert "its answer is not valid MCP" in (tools.lists[0].error or "")


async def test_what_a_program_writes_to_standard_error_is_debug_lines_under_its_label_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def complaints() -> list[Any]:
        return [line for line in lines if line["event"] == "mcp_stderr"]

    with structlog.testing.capture_logs() as lines:
        async with (
            toolbox(tool=[stdio(tmp_path / "notes", "--complain", "3")]) as box,
            opened(box, ASKED) as tools,
        ):
            assert (await call(named(tools)["echo"], {"text": "hi"})).output == "hi"
            await until(lambda: len(complaints()) == 3, "all were read")
    assert {(line["log_level"], line["server_label"]) for line in complaints()} == {("debug", "program")}
    assert [line["line"].split(" x")[0] for line in complaints()] == [f"complaint {n}" for n in range(3)]
    assert all(len(line["line"]) == 500 for line in complaints())
    assert "complaint" not in capfd.readouterr().err


async def test_a_program_that_complains_without_end_is_read_without_end(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as lines:
        async with toolbox(tool=[stdio(tmp_path / "notes", "--complain", "5000")]) as box:
            async with opened(box, ASKED) as tools:
                assert (await call(named(tools)["echo"], {"text": "hi"})).output == "hi", "10 MB held it up not"
    assert 100 <= len([line for line in lines if line["event"] == "mcp_stderr"]) < 5000
    assert sum(line["lines"] for line in lines if line["event"] == "mcp_stderr_dropped") > 1000


async def test_the_last_words_of_a_program_that_dies_at_once_are_logged() -> None:
    words = "import sys; sys.stderr.write('no licence'); sys.exit(3)"
    tool = {"name": "program", "kind": "mcp", "command": sys.executable, "args": ["-c", words]}
    with structlog.testing.capture_logs() as lines:
        async with toolbox(tool=[tool]) as box, opened(box, ASKED) as tools:
            assert "broke off" in (tools.lists[0].error or "")
    assert [line["line"] for line in lines if line["event"] == "mcp_stderr"] == ["no licence"]


def test_lines_come_together_from_pieces_and_are_bounded_in_length_and_number() -> None:
    with structlog.testing.capture_logs() as said:
        lines = StderrLines("program")
        for piece in (b"one\ntw", b"o\r\n\n  \n", b"x" * 400, b"y" * 400, b"z" * 10_000, b"z\nnext\n", b"\xff\n"):
            lines.feed(piece, 0.0)
        lines.feed(b"".join(b"%d\n" % n for n in range(1000)), 1.0)
        lines.feed(b"later\nlast", 20.0)
        lines.close()
    shown = [line["line"] for line in said if line["event"] == "mcp_stderr"]
    assert shown[:5] == ["one", "two", "x" * 400 + "y" * 100, "next", "\ufffd"]
    assert len(shown) == 102 and shown[-2:] == ["later", "last"]
    assert [line["lines"] for line in said if line["event"] == "mcp_stderr_dropped"] == [905]
