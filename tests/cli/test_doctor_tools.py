"""`antiphon doctor` on tools: what would stop the server, and what would fail at the first call."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.doctor_tools import tool_checks
from antiphon.errors import AntiphonError, StartupError
from antiphon.settings import Settings
from antiphon.tools.build import build_toolbox
from tests.cli.running import antiphon
from tests.tools.running import ANY, stdio
from tests.upstream.calling import FastClock


async def found(*tools: dict[str, Any], **settings: Any) -> dict[str, tuple[bool, str]]:
    """Check to whether it passed, and its detail."""
    results: dict[str, tuple[bool, str]] = {}
    for name, check in tool_checks(Settings(tool=tools, **settings), None):
        try:
            results[name] = (True, await check())
        except (AntiphonError, OSError) as error:
            results[name] = (False, str(error))
    return results


async def test_every_tool_that_works_is_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "quite-secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/lookup"
        results = await found(
            stdio(tmp_path / "notes", allowed_tools=["echo", "look"]),
            {"name": "lookup", "kind": "http", "url": url, "parameters": ANY},
            {"name": "order", "kind": "python", "entry": "tests.tools.sample_tools:order"},
            web_search={"provider": "brave", "key_env": "SEARCH_KEY"},
        )
        listener.settimeout(5)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            assert connection.recv(1) == b"", "connected to, and asked nothing"
    assert all(passed for passed, _ in results.values()), results
    assert list(results) == ["tool program", "tool lookup", "tool order", "web search"]
    assert results["tool program"][1] == "2 tools: echo, look"


async def test_every_tool_that_does_not_is_a_failed_check_of_its_own_that_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    http = {"kind": "http", "url": "http://127.0.0.1:1/", "parameters": ANY}
    mute = stdio(tmp_path / "notes", "--list", "hang")
    results = await found(
        {"name": "dead", "kind": "mcp", "command": "/no/such/program"},
        {**mute, "name": "mute"},
        {"name": "keyless", "kind": "mcp", "command": "true", "env_keys": ["NO_SUCH_KEY"]},
        {**http, "name": "gone", "url": f"http://127.0.0.1:{port}/"},
        {**http, "name": "secretless", "headers_env": {"Authorization": "NO_SUCH_KEY"}},
        {"name": "unloadable", "kind": "python", "entry": "tests.tools.no_such_module:order"},
        {**http, "name": "current_time"},
        tools={"list_timeout_s": 2},
        web_search={"provider": "tavily", "key_env": "NO_SUCH_KEY"},
    )  # fmt: skip
    said = {name: detail for name, (passed, detail) in results.items() if not passed}
    assert said.keys() == results.keys()
    for name, part in {
        "tool dead": "No such file or directory",
        "tool mute": "did not list its tools within 2 s",
        "tool keyless": "environment variable NO_SUCH_KEY",
        "tool gone": "Connect call failed",
        "tool secretless": "environment variable NO_SUCH_KEY",
        "tool unloadable": "cannot be loaded (ModuleNotFoundError",
        "tool current_time": "a built-in tool has this name",
        "web search": "set the environment variable NO_SUCH_KEY",
    }.items():
        assert part in said[name], name


def test_a_start_names_every_tool_that_cannot_work() -> None:
    http = {"kind": "http", "url": "http://127.0.0.1:1/", "parameters": {"type": "array"}}
    python = {"kind": "python", "entry": "tests.tools.no_such_module:f"}
    settings = Settings(tool=[{"name": "one", **http}, {"name": "two", **python}, {"name": "web_search", **http}])  # type: ignore[list-item]
    with pytest.raises(StartupError) as caught:
        build_toolbox(settings, FastClock())
    lines = caught.value.message.splitlines()
    assert [line.split(":")[0] for line in lines] == ["tool 'one'", "tool 'two'", "tool 'web_search'"]


async def test_the_command_fails_where_serve_would_and_prints_nothing_beside_its_tables(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text(
        "port = 0\n[[tool]]\nname = 'dead'\nkind = 'mcp'\ncommand = '/no/such/program'\n"
        "[[tool]]\nname = 'gone'\nkind = 'python'\nentry = 'no_such_module:f'\n"
    )
    data = tmp_path / "data"
    data.mkdir()
    (data / "seal.key").write_text("short")
    done = await antiphon(tmp_path, "doctor", "--data-dir", str(data))
    assert done.status == 1 and done.err == ""
    json.loads(done.out[done.out.index("{") : done.out.rindex("}") + 1])
    rows = [line for line in done.out.splitlines() if "failed" in line and "│" in line]
    assert [row.split("│")[1].strip() for row in rows] == ["seal key", "tool dead", "tool gone"]
    assert "mcp_list_failed" not in done.out, "no log line among the tables"
    served = await antiphon(tmp_path, "serve", "--data-dir", str(data))
    assert served.status == 2 and "tool 'gone'" in served.err


async def test_a_new_data_folder_gets_no_seal_key_from_being_looked_at(tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text("port = 0\n")
    done = await antiphon(tmp_path, "doctor", "--data-dir", str(tmp_path / "data"))
    assert done.status == 0, done.out
    assert "will be made" in done.out and not (tmp_path / "data" / "seal.key").exists()
