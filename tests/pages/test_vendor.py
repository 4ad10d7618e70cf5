"""What the pages load from elsewhere is what `web/build.mjs` makes of its sources, and the modules' types hold."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.sdk_processes import ROOT, Finished, missing, run_process

WEB = ROOT / "web"
VENDOR = ROOT / "server" / "antiphon" / "pages" / "vendor"
LIMIT_S = 120.0


async def _run(*command: str | Path) -> Finished:
    if shutil.which("node") is None or not (WEB / "node_modules" / "esbuild").is_dir():
        missing("web/node_modules", "make it with `make setup`")
    return await run_process(command, cwd=WEB, wait_s=LIMIT_S)


def _files(folder: Path) -> dict[str, bytes]:
    """All but the declarations of types, which are written by hand."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".ts"}


async def test_the_vendored_files_are_those_that_the_build_makes(tmp_path: Path) -> None:
    finished = await _run("node", "build.mjs", tmp_path)
    assert finished.code == 0, finished.stdout + finished.stderr
    made, kept = _files(tmp_path), _files(VENDOR)
    assert made.keys() == kept.keys()
    assert not [name for name in made if made[name] != kept[name]], "run `make web` and commit what it writes"


async def test_the_types_of_the_pages_hold() -> None:
    finished = await _run("node_modules/.bin/tsc", "-p", ".")
    assert finished.code == 0, finished.stdout + finished.stderr
