"""What is declared is used, and what is used is declared."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, requires

import pytest

from tests.architecture.sources import ROOT, sources

REQUIRED = ["starlette", "uvicorn", "websockets", "redis", "pydantic", "pydantic_settings", "httpx2", "orjson"]
"""The libraries the project is built on."""

THROUGH = {"websockets": "uvicorn.protocols.websockets.websockets_sansio_impl"}
"""Libraries that work for the server inside a class it derives from, and the module of that class."""

BROUGHT_ALONG = {
    "anyio": "mcp",
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
    "referencing": "jsonschema",
}
"""Libraries that are part of another one's interface and are released for it."""

NAMED_IN_TEXT = {"aiosqlite": "sqlite+aiosqlite"}
"""Dependencies that are loaded by another one, which finds them by a name in a string of ours."""


OPTIONAL = {"opentelemetry": ("otel", "ops.tracing.")}
"""Libraries of an extra: its name, and how the modules begin that are loaded only when they are wanted."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def modules() -> frozenset[str]:
    return frozenset(name for source in sources() for name in source.imports())


@cache
def imported() -> frozenset[str]:
    """Top-level names of what the server imports, or derives its classes from."""
    derived = {library for library, module in THROUGH.items() if module in modules()}
    return frozenset({name.split(".")[0] for name in modules()} | derived)


@cache
def declared(extra: str | None = None) -> frozenset[str]:
    """What the server needs, or one of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return frozenset(canonical(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in lines)


@cache
def installed() -> Mapping[str, list[str]]:
    return packages_distributions()


def distributions_of(module: str) -> set[str]:
    """The distributions that bring a top-level module; its own name where none is installed."""
    return {canonical(name) for name in installed().get(module, [module])}


@pytest.mark.parametrize("module", REQUIRED)
def test_a_library_the_project_is_built_on_is_really_imported(module: str) -> None:
    assert module in imported()
    assert distributions_of(module) & declared()


@pytest.mark.parametrize("dependency", sorted(declared()))
def test_a_declared_dependency_is_used(dependency: str) -> None:
    text = NAMED_IN_TEXT.get(dependency)
    if text is not None:
        assert any(text in source.path.read_text(encoding="utf-8") for source in sources())
        return
    used = {name for module in imported() for name in distributions_of(module)}
    assert dependency in used


@pytest.mark.parametrize(
    "module", sorted(imported() - sys.stdlib_module_names - {"antiphon", "antiphon_protocol"})
)
def test_an_imported_library_is_declared(module: str) -> None:
    known = declared(OPTIONAL[module][0]) if module in OPTIONAL else declared()
    assert distributions_of(BROUGHT_ALONG.get(module, module)) & known


@pytest.mark.parametrize("module", OPTIONAL)
def test_a_library_of_an_extra_is_imported_only_by_modules_that_are_loaded_when_it_is_wanted(module: str) -> None:
    _, beginning = OPTIONAL[module]
    importers = {
        source.name for source in sources() if any(name.split(".")[0] == module for name in source.imports())
    }
    assert importers and all(name.startswith(beginning) for name in importers)


@pytest.mark.parametrize(("library", "module"), THROUGH.items())
def test_a_library_behind_a_base_class_really_works_there(library: str, module: str) -> None:
    base = vars(import_module(module)).values()
    assert any(getattr(value, "__module__", "").split(".")[0] == library for value in base)


@pytest.mark.parametrize(("module", "parent"), BROUGHT_ALONG.items())
def test_a_library_that_is_brought_along_is_required_by_its_parent(module: str, parent: str) -> None:
    names = {canonical(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in requires(parent) or ()}
    assert canonical(module) in names
