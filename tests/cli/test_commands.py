"""The commands: what serve prints, what doctor checks, how a start fails (DESIGN 5)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from antiphon import __version__
from antiphon.cli import main
from antiphon.settings import Settings
from tests.cli.running import antiphon, environment
from tests.http.calling import key_of
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import StubUpstream


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_serve_says_what_to_open_and_how_to_point_a_client(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "antiphon", "serve", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    assert process.stdout is not None
    said = ""
    async with asyncio.timeout(120):
        while "Try it" not in said:
            line = (await process.stdout.readline()).decode()
            assert line, said
            said += line
    url = next(word for word in said.split() if word.startswith("http://127.0.0.1:"))
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(url)).headers["content-type"].startswith("text/html")
        base = next(word for word in said.split() if word.startswith("base_url=")).removeprefix("base_url=")
        answer = await client.post(f"{base}/responses", json={"model": "antiphon/echo", "input": "x"})
        assert answer.status_code == 200
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert f"Antiphon {__version__}" in said and "api_key=any key" in said and "antiphon/echo" in said
    assert str(tmp_path / ".antiphon") in said and (tmp_path / ".antiphon" / "antiphon.db").is_file()
    events = [json.loads(line)["event"] for line in err.decode().splitlines()]
    assert events[0] == "listening" and events[-1] == "stopped" and "draining" in events


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command inside this process, in an empty folder; a server that starts after all is stopped."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in set(os.environ) - environment(tmp_path).keys():
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "configure_logs", lambda *_: None)  # it would set up logs for all other tests too
    monkeypatch.setattr(main.uvloop, "run", lambda serving: asyncio.run(asyncio.wait_for(serving, 10)))
    return lambda *args, **env: CliRunner().invoke(main.app, args, env=env, catch_exceptions=False)


def test_a_port_in_use_is_said_in_one_sentence_with_what_to_do(run: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port))
    assert done.exit_code == 2 and done.stdout == ""
    said = " ".join(done.stderr.split())
    assert f"cannot listen on 127.0.0.1:{port}" in said and "--port" in said


def test_starts_that_cannot_work_fail_with_one_sentence(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("prot = 1")
    (tmp_path / "url.toml").write_text("[[upstream]]\nname='u'\nurl='ftp://x'")
    (tmp_path / "two.toml").write_text("[[upstream]]\nname='u'\nurl='http://x'\n" * 2)
    (tmp_path / "file").write_text("")
    for args, env, sentence in (
        (("--config", "nowhere.toml"), {}, "configuration file nowhere.toml does not exist"),
        (("--config", "bad.toml"), {}, "prot: Extra inputs are not permitted"),
        (("--config", "url.toml"), {}, "must begin with http:// or https://"),
        (("--config", "two.toml"), {}, "two upstreams are named 'u'"),
        (("--host", "0.0.0.0"), {}, "make a key with `antiphon keys create`"),
        (("--host", "0.0.0.0"), {"ANTIPHON_AUTH": "off"}, "or say --insecure"),
        ((), {"ANTIPHON_PROT": "1"}, "ANTIPHON_PROT: there is no such setting"),
        ((), {"ANTIPHON_CONFIG": "nowhere.toml"}, "configuration file nowhere.toml does not exist"),
        (("--log-level", "loud"), {}, "log_level"),
        (("--log-format", "xml"), {}, "log_format"),
        ((), {"ANTIPHON_METRICS__TOKEN_ENV": "NOT_SET"}, "metrics.token_env names $NOT_SET, which is not set"),
        (("--data-dir", "file/x"), {}, "cannot be used"),
        ((), {"ANTIPHON_STORE_URL": "postgresql://x/y"}, "so bus_url has to be Redis"),
        ((), {"ANTIPHON_BUS_URL": "redis://x"}, "store_url has to be PostgreSQL"),
        ((), {"ANTIPHON_STORE_URL": "mysql://x/y"}, "store_url: Value error, it begins neither with"),
    ):
        done = run("serve", "--port", "0", *args, **env)
        said = " ".join(done.stderr.split())
        assert (done.exit_code, done.stdout) == (2, ""), (args, env, done.output)
        assert said.startswith("antiphon cannot start:") and sentence in said, (args, said)


def test_the_banner_says_whose_key_a_client_needs(
    run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(auth="required", key=[key_of("x")], data_dir=Path("/a [b]"))  # type: ignore[list-item]
    main._banner(settings, "http://[::1]:8787")
    said = capsys.readouterr().out
    assert "api_key=one of your keys" in said and "base_url=http://[::1]:8787/v1" in said and "/a [b]" in said


def test_the_configuration_file_may_be_named_by_a_variable(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("port=70000")
    assert "port:" in run("serve", ANTIPHON_CONFIG="mine.toml").stderr


def test_version_is_one_line(run: Callable[..., Any]) -> None:
    done = run("version")
    assert (done.exit_code, done.stdout) == (0, f"{__version__}\n")


def test_doctor_exits_1_and_says_which_check_failed(run: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, url = str(taken.getsockname()[1]), f"http://127.0.0.1:{free_port()}/v1"
        done = run("doctor", ANTIPHON_PORT=port, ANTIPHON_UPSTREAM_URL=url)
    assert done.exit_code == 1
    rows = [line for line in done.stdout.splitlines() if "failed" in line]
    assert any("address" in row for row in rows) and any("upstream default" in row for row in rows)
    assert not any("database" in row for row in rows)


async def test_doctor_prints_the_configuration_with_secrets_masked_and_checks_everything(tmp_path: Path) -> None:
    async with StubUpstream(stub.text()) as upstream:
        digest = key_of("x")["sha256"]
        (tmp_path / "antiphon.toml").write_text(
            f"port={free_port()}\n[[key]]\nsha256='{digest}'\n"
            f"[[upstream]]\nname='local'\nurl='{upstream.url}'\nkey='SECRETONE'\n"
        )
        env = {"ANTIPHON_UPSTREAM_URL": upstream.url, "ANTIPHON_UPSTREAM_KEY": "SECRETTWO"}
        done = await antiphon(tmp_path, "doctor", "--data-dir", str(tmp_path / "data"), env=env)
        assert upstream.model_requests
    assert done.status == 0, done.out + done.err
    assert "SECRET" not in done.out + done.err and "**********" in done.out
    configuration = json.loads(done.out[done.out.index("{") : done.out.rindex("}") + 1])
    assert configuration["upstream"][0]["name"] == "local" and configuration["journal"]["mode"] == "relaxed"
    for check in ("data folder", "database", "address", "models", "upstream local", "upstream default"):
        assert check in done.out
    assert "failed" not in done.out[done.out.rindex("}") :]  # settings may have that word in their names
