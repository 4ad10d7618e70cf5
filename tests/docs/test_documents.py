"""What the documents say is true: names exist, links lead somewhere, snippets work."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.settings import Settings
from antiphon.settings.reference import _model_of

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server" / "antiphon"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "protocol" / "PROTOCOL.md",
    ROOT / "bench" / "README.md",
]


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def _names(path: Path) -> set[str]:
    """Functions, classes and `Class.method`s of a module."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if hasattr(inner, "name")}
    return names


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_the_documents_lead_to_files_that_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_the_documents_exist(path: Path) -> None:
    named = re.findall(r"`((?:server|protocol|tests|bench|docs|examples)/[\w./-]+)`", path.read_text())
    made = "bench/results/"  # written by a bench run, not kept
    missing = [name for name in named if not (ROOT / name).exists() and not name.startswith(made)]
    assert not missing


def test_functions_named_in_the_walks_of_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    references = re.findall(r"`([\w/]+\.py):([\w.]+)`", text)
    assert len(references) > 15
    for file, name in references:
        assert name in _names(SERVER / file), f"{file}:{name}"


def test_make_targets_named_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        named = set(re.findall(r"(?:^|`)(?:\w+=\S+ )?make ([a-z-]+)", path.read_text(), re.MULTILINE))
        assert named <= targets, f"{path.name} names {named - targets}"


def test_the_readme_begins_with_the_two_commands() -> None:
    first = _blocks(ROOT / "README.md", "")[0]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make run", "make test"]


def _tomls() -> Iterator[str]:
    yield from _blocks(ROOT / "README.md", "toml")


def test_configuration_examples_of_the_readme_are_valid_settings(tmp_path: Path) -> None:
    examples = list(_tomls())
    assert len(examples) == 3
    for text in examples:
        Settings(data_dir=tmp_path, **tomllib.loads(text))


def test_the_configuration_page_is_what_the_settings_say() -> None:
    subprocess.run([sys.executable, "-m", "antiphon.settings.reference", "--check"], check=True)


def test_every_setting_has_a_description_and_every_table_says_what_it_is_for() -> None:
    for name, field in Settings.model_fields.items():
        table = _model_of(field.annotation)
        assert field.description or (table is not None and table.__doc__) or name in ("upstream", "tenant"), name


def test_the_changelog_has_an_unreleased_section_and_states_its_policy_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.index("semantic versioning") < text.index("## Unreleased")


def test_commands_of_the_command_line_named_in_the_documents_exist() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "antiphon", "--help"], check=True, capture_output=True, text=True
    ).stdout
    for path in DOCUMENTS:
        for command in re.findall(r"^antiphon ([a-z]+)", path.read_text(), re.MULTILINE):
            assert command in listed, f"{path.name} names antiphon {command}"


def test_decisions_state_context_decision_and_consequences() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [record.name[:4] for record in records] == [f"{n:04}" for n in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text()
        for part in ("Status:", "## Context", "## Decision", "## Consequences"):
            assert part in text, f"{record.name} lacks {part}"
