"""Arguments against schemas, whatever either of them holds: the answer is right, comes soon, and stops nobody."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from antiphon.errors import ToolError
from antiphon.tools import schemas
from antiphon.tools.schemas import check_schema, parse_arguments

COMPLEX = "too complex to check"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
SLOW_PATTERN = "^(a|aa)+$"
SLOW_TEXT = "a" * 60 + "!"


def having(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def doubling(levels: int) -> dict[str, Any]:
    """A schema of a few lines whose checks double with each level."""
    inner: dict[str, Any] = {
        f"n{n}": {"anyOf": [{"$ref": f"#/$defs/n{n + 1}"}, {"$ref": f"#/$defs/n{n + 1}"}]} for n in range(levels)
    }
    return {"$defs": {**inner, f"n{levels}": {"type": "string"}}, **having(a={"$ref": "#/$defs/n0"})}


async def error_of(arguments: Any, schema: dict[str, Any], **how: Any) -> str | None:
    """What the model is told; None if the arguments fit."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        async with asyncio.timeout(30):
            await parse_arguments(text, schema, **how)
    except ToolError as error:
        return error.message
    return None


@pytest.fixture
def checked_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which arguments were parsed."""
    names: list[str] = []
    inner = schemas._parse

    def parse(*given: Any) -> Any:
        names.append(threading.current_thread().name.partition("_")[0])
        return inner(*given)

    monkeypatch.setattr(schemas, "_parse", parse)
    return names


async def test_small_arguments_are_checked_at_once_in_the_loop(checked_in: list[str]) -> None:
    assert await error_of({"a": 1}, having(a={"type": "integer"})) is None
    assert checked_in == ["MainThread"]


async def test_what_is_large_or_takes_long_is_checked_in_a_thread(checked_in: list[str]) -> None:
    assert await error_of({"a": "x" * 100_000}, having(a={"type": "string"})) is None
    assert checked_in == ["arguments"]
    checked_in.clear()
    assert await error_of({"a": list(range(1500))}, having(a={"items": {"type": "integer"}})) is None
    assert checked_in == ["MainThread", "arguments"], "begun in the loop, given up there"


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ({"a": 1}, doubling(40)),
        ({"a": 1}, {"$schema": DRAFT, **doubling(40)}),
        ({"a": SLOW_TEXT}, having(a={"type": "string", "pattern": SLOW_PATTERN})),
        ({SLOW_TEXT: 1}, {"type": "object", "patternProperties": {SLOW_PATTERN: {}}}),
        (
            {SLOW_TEXT: 1},
            {"type": "object", "patternProperties": {SLOW_PATTERN: {}}, "additionalProperties": False},
        ),
        ({"a": "x" * 1_000_000}, having(a={"anyOf": [{"type": "integer"}] * 1000})),
        ({"a": ["x" * 1000] * 1000}, having(a={"anyOf": [False] * 1000})),
        ({"a": list(range(500_000))}, having(a={"items": {"type": "integer"}})),
    ],
    ids=["doubling", "dialect", "pattern", "keys", "additional", "long-errors", "false", "many"],
)
async def test_what_would_take_for_ever_is_an_error_and_the_loop_goes_on_meanwhile(
    arguments: Any, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_SLOW_CPU_S", 0.3)
    checking = asyncio.create_task(error_of(arguments, schema))
    turns = 0
    while not checking.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert COMPLEX in (checking.result() or "")
    assert turns >= 3, "other tasks had their turn"


async def test_an_inner_dialect_does_not_lead_out_of_the_bounds() -> None:
    circle = {
        "$schema": DRAFT,
        "type": "object",
        "properties": {"in": {"$ref": "#"}, **doubling(40)["properties"]},
    }
    assert COMPLEX in (await error_of({"in": {"a": 1}}, {**doubling(40), **circle}) or "")
    slow = {"$schema": DRAFT, "type": "string", "pattern": SLOW_PATTERN}
    assert await error_of({"a": SLOW_TEXT}, having(a=slow), patterns=False) is None


@pytest.mark.parametrize(
    "schema",
    [
        having(a={"type": "string", "pattern": SLOW_PATTERN}),
        {"type": "object", "patternProperties": {SLOW_PATTERN: False}},
        {"type": "object", "patternProperties": {SLOW_PATTERN: {}}, "additionalProperties": False},
        {"type": "object", "patternProperties": {SLOW_PATTERN: {}}, "unevaluatedProperties": False},
    ],
)
async def test_no_pattern_of_a_foreign_schema_is_run_whichever_keyword_would(
    schema: dict[str, Any], checked_in: list[str]
) -> None:
    assert await error_of({SLOW_TEXT: 1, "a": SLOW_TEXT}, schema, patterns=False) is None
    assert checked_in == ["MainThread"]


async def test_patterns_of_our_own_mean_what_they_say() -> None:
    schema = {
        **having(a={"pattern": "^[a-z]+$"}), "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }  # fmt: skip
    assert await error_of({"a": "abc", "x-1": 1}, schema) is None
    assert "'ABC' does not match" in (await error_of({"a": "ABC"}, schema) or "")
    assert "'one' is not of type 'integer'" in (await error_of({"x-1": "one"}, schema) or "")
    assert "'b' was unexpected" in (await error_of({"b": 1}, schema) or "")


async def test_many_elements_are_compared_in_one_pass() -> None:
    unique = having(a={"type": "array", "uniqueItems": True})
    many = [{"k": n, "of": [n, {"n": n}]} for n in range(20_000)]
    assert await error_of({"a": many}, unique) is None
    assert "is there more than once" in (await error_of({"a": [*many, many[0]]}, unique) or "")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, False, False),
        (2**60, 2.0**60, True),
        (2**60 + 1, 2.0**60, False),
        (1e300, 1e300, True),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, True),
        ([1, 2], [2, 1], False),
        ("ä", "ä", True),
    ],
)
async def test_values_are_equal_as_json_schema_has_it(one: Any, other: Any, equal: bool) -> None:
    found = [
        await error_of({"a": [one, other]}, having(a={"uniqueItems": True})) is not None,
        await error_of({"a": one}, having(a={"const": other})) is None,
        await error_of({"a": one}, having(a={"enum": ["something", other]})) is None,
    ]
    assert found == [equal] * 3


async def test_arguments_of_more_than_4_mib_are_refused_unread() -> None:
    assert "longer than 4194304 characters" in (await error_of("[" * 5_000_000, having()) or "")


def test_the_rules_of_an_old_dialect_that_compare_all_with_all_are_checked_in_one_pass() -> None:
    check_schema({"$schema": DRAFT_4, "type": "object", "enum": [{"n": n} for n in range(10_000)]})


async def test_several_megabytes_that_fit_are_taken() -> None:
    assert await error_of({"a": "x" * 4_000_000}, having(a={"type": "string"})) is None


@pytest.mark.parametrize("dialect", [DRAFT_4, "http://json-schema.org/draft-07/schema#", DRAFT])
async def test_schemas_of_every_dialect_are_bounded(dialect: str) -> None:
    schema = {"$schema": dialect, **doubling(40)}
    check_schema(schema)
    assert COMPLEX in (await error_of({"a": 1}, schema) or "")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "not object"),
        (having(a={"type": "nonsense"}), r"\$.properties.a.type"),
        (having(a={"description": "x" * 300_000}), "larger than 262144 bytes"),
        ({"$ref": "#/$defs/n0", "$defs": {**{f"n{n}": {"allOf": [{"$ref": f"#/$defs/n{n + 1}"}] * 2}
                                             for n in range(30)}, "n30": {}}}, "too complex"),
        (having(a={"$ref": DRAFT}), "JSON Schema itself"),
        ({"$ref": "#/$defs/gone", "type": "object"}, "cannot be resolved"),
        ({"$ref": "#", "type": "object"}, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_worked_with_is_told_why_and_soon(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_schema(schema)
