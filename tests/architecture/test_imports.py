"""Who may know whom (DESIGN section 2), that the core is pure, and that files and functions stay small."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.architecture.sources import ROOT, Source, sources

EVERYBODY = frozenset({"", "core", "entry_loading", "errors", "hooks", "ports", "settings"})
"""What each layer may import beside itself. The empty name is the package, for its version."""

ALLOWED: dict[str, frozenset[str]] = {
    "transport": frozenset({"session", "runs", "ops", "governance", "journal"}),
    "session": frozenset({"runs", "ops", "journal"}),
    "runs": frozenset({"upstream", "tools", "governance", "ops", "journal", "bus", "store"}),
    "governance": frozenset({"journal", "bus", "store"}),
    "ops": frozenset({"journal", "bus", "store"}),
    "journal": frozenset({"store", "bus"}),
    "upstream": frozenset(),
    "tools": frozenset(),
    "bus": frozenset(),
    "store": frozenset(),
}

FOUNDATION: dict[str, frozenset[str]] = {
    "core": frozenset({"core", "errors"}),
    "ports": frozenset({"core"}),
    "errors": frozenset(),
    "entry_loading": frozenset({"errors"}),
    "hooks": frozenset({"core", "errors"}),
    "settings": frozenset({"core", "errors", "settings"}),
    "clock": frozenset({"ports"}),
    "": frozenset(),
}
"""What stands below all layers, and the little each part of it may import."""

COMPOSITION = frozenset({"app", "backends", "server", "listening", "workers", "cli", "__main__"})
"""Where the parts are put together: these may import everything."""

ADAPTERS = frozenset(
    {
        "bus.memory",
        "bus.redis.bus",
        "clock",
        "governance.admission.memory_ledger",
        "governance.admission.redis_ledger",
        "governance.identity.authenticator",
        "governance.identity.build",
        "journal.redis.journal",
        "journal.sqlite",
        "store.postgres.writer",
        "store.writer",
        "tools.build",
        "tools.toolbox",
        "transport.asgi",
        "upstream.build",
        "upstream.chat.upstream",
        "upstream.demo",
        "upstream.echo",
        "upstream.fallback",
        "upstream.http_upstream",
        "upstream.resilient",
        "upstream.responses",
        "upstream.script",
        "upstream.transport",
    }
)
"""Concrete things behind a port."""

IMPURE = frozenset(
    {
        "asyncio",
        "concurrent",
        "contextvars",
        "http",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "queue",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "datetime",
    }
)
PURE_LIBRARIES = frozenset({"orjson", "pydantic", "pydantic_core"})
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
VAGUE = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"})

every_source = pytest.mark.parametrize("source", sources(), ids=lambda source: source.name or "antiphon")
every_file = pytest.mark.parametrize(
    "source", [*sources(), *sources("antiphon_protocol")], ids=lambda source: str(source.path.relative_to(ROOT))
)


def ours(source: Source) -> list[str]:
    """Modules of the server that a source imports, without the package in front."""
    names = [name for name in source.imports() if name.split(".")[0] == "antiphon"]
    return [name.partition(".")[2] for name in names]


def layer_of(module: str) -> str:
    return module.split(".")[0]


@every_source
def test_a_module_imports_only_what_its_layer_may_know(source: Source) -> None:
    if source.layer in COMPOSITION:
        return
    if source.layer in FOUNDATION:
        allowed = FOUNDATION[source.layer]
    else:
        allowed = ALLOWED[source.layer] | EVERYBODY | {source.layer}
    wrong = [module for module in ours(source) if layer_of(module) not in allowed]
    assert not wrong, f"{source.name} may not import {wrong}"


@every_source
def test_concrete_adapters_are_named_only_where_the_server_is_put_together(source: Source) -> None:
    if source.layer in COMPOSITION:
        return
    named = [m for m in ours(source) if m in ADAPTERS and layer_of(m) != source.layer]
    assert not named, f"{source.name} names {named}"


def test_every_folder_of_the_server_has_its_rule() -> None:
    layers = {source.layer for source in sources()}
    assert layers <= ALLOWED.keys() | FOUNDATION.keys() | COMPOSITION


def test_no_layer_is_known_to_one_it_knows() -> None:
    """The rules have no circle, so that each part can be understood without those above it."""
    order: list[str] = []
    left = dict(ALLOWED)
    while left:
        free = [layer for layer, knows in left.items() if not knows & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        order += free
        for layer in free:
            del left[layer]
    assert order[-1] == "transport"


CORE = [source for source in sources() if source.layer == "core"]
every_core_source = pytest.mark.parametrize("source", CORE, ids=lambda source: source.name)


@every_core_source
def test_the_core_imports_nothing_that_touches_the_world(source: Source) -> None:
    roots = {name.split(".")[0] for name in source.imports()}
    assert not roots & IMPURE
    assert roots <= sys.stdlib_module_names | PURE_LIBRARIES | {"antiphon", "antiphon_protocol"}


@every_core_source
def test_nothing_in_the_core_waits_opens_or_prints(source: Source) -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for node in ast.walk(source.tree):
        assert not isinstance(node, waiting), f"{source.name}:{getattr(node, 'lineno', 0)} waits"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "exec", "eval", "__import__")


@every_core_source
def test_the_core_keeps_no_state_of_its_own(source: Source) -> None:
    """No `global`: what changes lives in an object that somebody made."""
    assert not [node for node in ast.walk(source.tree) if isinstance(node, ast.Global)]


@pytest.mark.parametrize(
    "source", sources("antiphon_protocol"), ids=lambda source: source.name or "antiphon_protocol"
)
def test_the_package_of_the_wire_knows_nothing_of_the_server(source: Source) -> None:
    assert not [name for name in source.imports() if name.split(".")[0] == "antiphon"]


@every_file
def test_a_file_is_not_longer_than_400_lines(source: Source) -> None:
    assert len(source.path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


@every_file
def test_a_function_is_not_longer_than_60_lines(source: Source) -> None:
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


@every_file
def test_no_module_or_folder_has_a_name_that_says_nothing(source: Source) -> None:
    parts = [part for name in source.name.split(".") for part in name.split("_")]
    assert not VAGUE & set(parts)
