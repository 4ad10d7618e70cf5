"""Runs the unit tests of the chat page's modules, which need Node but no browser and no npm packages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.sdk_processes import missing, run_process

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "server" / "antiphon" / "pages"
TEST_FILES = sorted(HERE.glob("*.test.mjs"))
LIMIT_S = 60.0


async def _node(*arguments: str) -> tuple[int, str]:
    node = shutil.which("node")
    if node is None:
        missing("node", "install Node 20 or newer")
    finished = await run_process([node, *arguments], wait_s=LIMIT_S)
    return finished.code, finished.stdout + finished.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name.removesuffix(".test.mjs"))
async def test_the_modules_of_the_page_keep_their_promises(path: Path) -> None:
    code, output = await _node("--test", str(path))
    assert code == 0, output
    assert "# pass 0" not in output, output


async def test_every_module_of_the_page_is_a_valid_module() -> None:
    for path in sorted((PAGES / "js").rglob("*.js")):
        code, output = await _node("--check", str(path))
        assert code == 0, output


@pytest.mark.parametrize("name", sorted(path.name for path in PAGES.glob("*.html")))
def test_a_page_has_no_inline_script_or_style(name: str) -> None:
    html = (PAGES / name).read_text()
    assert " style=" not in html
    assert "<style" not in html
    tags = [part.split(">")[0] for part in html.split("<")[1:]]
    assert not [tag for tag in tags if re.search(r"\son\w+=", tag)]
    assert not re.findall(r"<script(?![^>]*\ssrc=)", html)


def test_what_is_served_makes_no_markup_of_texts_and_has_no_foreign_address() -> None:
    for path in PAGES.rglob("*"):
        if path.suffix in {".html", ".css", ".js"}:
            text = path.read_text()
            assert "innerHTML" not in text, path
            assert "http://" not in text.replace("http://www.w3.org/", "").replace("http://127.0.0.1:8787", ""), (
                path
            )
            assert "https://" not in text, path
