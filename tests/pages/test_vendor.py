"""What the pages load from elsewhere is what `web/build.mjs` makes of its sources, and the modules' types hold."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
VENDOR = ROOT / "server" / "antiphon" / "pages" / "vendor"
LIMIT_S = 120.0


def _absent(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def _run(*command: str | Path) -> tuple[int | None, str]:
    if shutil.which("node") is None or not (WEB / "node_modules" / "esbuild").is_dir():
        _absent("tests of the vendored files: packages are missing, run `npm ci --prefix web`")
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=WEB, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        pytest.fail(f"{command} did not end within {LIMIT_S} s")
    return process.returncode, output.decode()


def _files(folder: Path) -> dict[str, bytes]:
    """All but the declarations of types, which are written by hand."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".ts"}


async def test_the_vendored_files_are_those_that_the_build_makes(tmp_path: Path) -> None:
    code, output = await _run("node", "build.mjs", tmp_path)
    assert code == 0, output
    made, kept = _files(tmp_path), _files(VENDOR)
    assert made.keys() == kept.keys()
    assert not [name for name in made if made[name] != kept[name]], "run `make web` and commit what it writes"


async def test_the_types_of_the_pages_hold() -> None:
    code, output = await _run("node_modules/.bin/tsc", "-p", ".")
    assert code == 0, output
