"""A forked command is as the real one: words, environment, outputs, exit status, and its end with the tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from antiphon import __version__
from tests.support.forked import SERVER
from tests.support.server import ServerProcess

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0

STARTS_ONE = """
import asyncio, sys
from pathlib import Path
from tests.support.server import ServerProcess

async def main():
    server = ServerProcess(Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def run(tmp_path: Path, *args: str, within: tuple[str, ...] = (), **env: str) -> tuple[int, bytes, str]:
    """Status, output and errors of an `antiphon` command, for which no port has to be free."""
    errors = tmp_path / "errors"
    words = ["-m", "antiphon", *args]
    async with asyncio.timeout(WAIT_S):
        with errors.open("wb") as file:
            process = await SERVER.start(
                words, {**os.environ, "ANTIPHON_PORT": "0", **env}, file, cwd=tmp_path, within=within
            )
        output, status = await process.rest(), await process.wait()
        process.close()
    return status, output, errors.read_text()


async def test_a_command_prints_and_ends_as_the_real_one(tmp_path: Path) -> None:
    assert await run(tmp_path, "version") == (0, f"{__version__}\n".encode(), "")


async def test_a_wrong_command_says_so_on_its_errors_and_has_its_status(tmp_path: Path) -> None:
    status, line, errors = await run(tmp_path, "serve", "--port", "many")
    assert (status, line) == (2, b"") and "python -m antiphon serve" in errors and "--port" in errors


async def test_settings_of_its_environment_count_and_do_not_reach_the_next_one(tmp_path: Path) -> None:
    wrong = {"ANTIPHON_STORE_URL": "mysql://nowhere"}
    assert (await run(tmp_path, "doctor", "--data-dir", str(tmp_path), **wrong))[0] != 0
    assert (await run(tmp_path, "doctor", "--data-dir", str(tmp_path)))[0] == 0


async def test_modules_are_found_where_its_environment_says(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "of_this_test.py").write_text("def tool(arguments, context):\n    return 'word'\n")
    tool = '[{"name": "word", "kind": "python", "entry": "of_this_test:tool", "parameters": {}}]'
    words = ("doctor", "--data-dir", str(tmp_path))
    assert (await run(tmp_path, *words, ANTIPHON_TOOL=tool))[0] != 0
    assert (await run(tmp_path, *words, ANTIPHON_TOOL=tool, PYTHONPATH=str(modules)))[0] == 0


async def test_its_width_is_that_of_its_environment(tmp_path: Path) -> None:
    _, narrow, _ = await run(tmp_path, "doctor", "--data-dir", str(tmp_path), COLUMNS="60")
    _, wide, _ = await run(tmp_path, "doctor", "--data-dir", str(tmp_path), COLUMNS="300")
    assert len(narrow.splitlines()) > len(wide.splitlines())


async def test_what_goes_before_the_command_becomes_the_command(tmp_path: Path) -> None:
    words = ("/bin/sh", "-c", 'echo "$WORD in $PWD"; echo "$@" >&2; exit 7', "sh")
    command = f"{sys.executable} -m antiphon version\n"
    assert await run(tmp_path, "version", within=words, WORD="here") == (
        7,
        f"here in {tmp_path}\n".encode(),
        command,
    )


async def test_a_script_is_run_with_its_folder_on_the_path_and_a_crash_is_told(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    (tmp_path / "script.py").write_text("import sys, beside\nprint(beside.WORD, sys.argv[1:], __name__)\n1 / 0\n")
    errors = tmp_path / "errors"
    async with asyncio.timeout(WAIT_S):
        with errors.open("wb") as file:
            process = await SERVER.start([str(tmp_path / "script.py"), "a b"], os.environ, file)
        assert (await process.rest(), await process.wait()) == (b"beside ['a b'] __main__\n", 1)
        process.close()
    assert "ZeroDivisionError" in errors.read_text()


async def test_a_signal_that_ended_it_is_told(tmp_path: Path) -> None:
    async with ServerProcess(tmp_path) as server:
        server.signal(signal.SIGKILL)
        assert await server.wait() == -signal.SIGKILL
        assert not psutil.pid_exists(server.pid)
        await server.start()
        server.signal(signal.SIGTERM)
        assert await server.wait() == 0


async def test_servers_end_with_the_test_process_however_it_went(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        server = psutil.Process(int(await process.stdout.readline()))
        forks = server.parent()
        process.kill()
        await process.wait()
        while server.is_running() or (forks is not None and forks.is_running()):  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)
