"""The wire is a package of its own: tools can use it without the server."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import antiphon_protocol

FOLDER = Path(antiphon_protocol.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of what a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_module_imports_only_pydantic_and_the_standard_library(path: Path) -> None:
    assert imported(path) <= {"pydantic", "antiphon_protocol", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_module_stays_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400


def test_importing_the_models_does_not_import_the_server() -> None:
    code = "import sys, antiphon_protocol.requests, antiphon_protocol.events; sys.exit('antiphon' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
