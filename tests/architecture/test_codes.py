"""Every error code in the server is in the one table, and every code in the table is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from tests.architecture.sources import sources

RESERVED: frozenset[str] = frozenset()
"""Codes that clients are told about before a release sends them. None at present."""


def strings_in(node: ast.expr | None) -> Iterator[str]:
    """The values an expression may have that are written out in it, for instance of `x or "a"`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from strings_in(node.body)
        yield from strings_in(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from strings_in(value)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from strings_in(value)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Dict)
    ):
        for value in (node.func.value, *node.args[1:]):  # {404: "a", 405: "b"}.get(status, "c")
            yield from strings_in(value)


def codes_in_call(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg == "code":
            yield from strings_in(keyword.value)
    if isinstance(call.func, ast.Name) and call.func.id == "failed" and call.args:
        yield from strings_in(call.args[0])


def codes_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from codes_in_call(node)
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "default_code" in names or "code" in names:
                yield from strings_in(node.value)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "code":
                    yield from strings_in(value)


def constants_in(tree: ast.Module) -> dict[str, str]:
    """Texts that a module gives a name, written in capitals."""
    return {
        target.id: value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
        for value in strings_in(node.value)
    }


def reasons_in(tree: ast.Module, constants: dict[str, str]) -> Iterator[str]:
    """Reasons of `Outcome(..., reason=...)` that are written out, or are one of the constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Outcome":
            for keyword in node.keywords:
                if keyword.arg == "reason" and isinstance(keyword.value, ast.Name):
                    yield constants[keyword.value.id]
                elif keyword.arg == "reason":
                    yield from strings_in(keyword.value)


USED = {code: source.name for source in sources() for code in codes_in(source.tree)}
CONSTANTS = {name: value for source in sources() for name, value in constants_in(source.tree).items()}
REASONS = {reason for source in sources() for reason in reasons_in(source.tree, CONSTANTS)}


@pytest.mark.parametrize("code", sorted(USED))
def test_a_code_the_server_uses_is_in_the_table(code: str) -> None:
    known = CODES.keys() | INCOMPLETE_REASONS.keys()
    assert code in known, f"{USED[code]} uses it"


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_in_the_table_is_used_or_reserved(code: str) -> None:
    assert (code in USED) != (code in RESERVED)


def test_every_reason_of_ours_is_in_the_table_and_every_one_in_the_table_is_used() -> None:
    assert REASONS == INCOMPLETE_REASONS.keys()


def test_reserved_codes_are_in_the_table() -> None:
    assert RESERVED <= CODES.keys()
