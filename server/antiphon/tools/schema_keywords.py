"""JSON Schema's keywords at a bounded cost: every check draws on a budget, and none is worse than linear.

A schema may come from an MCP server, arguments come from a model: either could
make a plain validator work for hours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import orjson
import regex
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]
"""Of (validator, the keyword's value, the instance, the schema around it)."""

_MAX_DEPTH = 128
"""Of keywords within keywords."""

_STEPS_AN_ERROR = 10
_CHARACTERS_A_STEP = 100
"""Of error messages, which repeat what they are about, and of texts made to compare values."""

_METASCHEMAS = "json-schema.org"
_DATA = frozenset({"enum", "const", "default", "example", "examples"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$id", "id"})


class TooComplex(Exception):
    """The budget is spent."""


class Budget:
    """What one check may cost. steps: keywords and the parts they look at. cpu_s: of the thread that checks."""

    def __init__(self, steps: int, cpu_s: float) -> None:
        self._steps = steps
        self._until = time.thread_time() + cpu_s
        self._depth = 0

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Raises RecursionError long before Python would: in the middle of compiled code that is a crash."""
        if self._depth >= _MAX_DEPTH:
            raise RecursionError
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def spend(self, steps: int) -> None:
        """Raises TooComplex."""
        self._steps -= steps
        if self._steps < 0 or time.thread_time() > self._until:
            raise TooComplex

    @property
    def left_s(self) -> float:
        return max(self._until - time.thread_time(), 0.001)


_budget: ContextVar[Budget] = ContextVar("schema_budget")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Inside of it validators of `bounded` draw on this budget."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def bounded(kind: type[Validator], *, patterns: bool, unevaluated: bool = True) -> type[Validator]:
    """The same dialect within the budget.

    patterns: whether regular expressions of the schema are run. unevaluated: whether `unevaluatedProperties` is
    checked; the library's own runs every pattern that it finds in other keywords, without a bound.
    """
    plain: dict[str, Keyword] = {name: check for name, check in kind.VALIDATORS.items() if check is not None}
    ours: dict[str, Keyword] = {
        "uniqueItems": _unique_items,
        "enum": _enum,
        "const": _const,
        "pattern": _pattern if patterns else _pass,
        "patternProperties": _pattern_properties if patterns else _pass,
        "additionalProperties": _additional_properties(plain.get("additionalProperties", _pass), patterns),
    }
    if not unevaluated:
        ours["unevaluatedProperties"] = _pass
    keywords: dict[str, Any] = {name: _counted(name, ours.get(name, check)) for name, check in plain.items()}
    made: type[Validator] = extend(kind, keywords)  # type: ignore[no-untyped-call]
    return made


def without_dialects(schema: Any) -> Any:
    """A copy in which no inner `$schema` leads the validator back to unbounded keywords.

    Raises ValueError for a reference to JSON Schema's own schemas, which would do the same.
    """
    if isinstance(schema, list):
        return [without_dialects(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$schema" and isinstance(value, str):
            continue
        if key in _REFERENCES and isinstance(value, str) and _METASCHEMAS in value.lower():
            raise ValueError("a reference to the schemas of JSON Schema itself is not followed")
        kept[key] = value if key in _DATA and not isinstance(value, dict) else without_dialects(value)
    return kept


def _counted(name: str, check: Keyword) -> Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget = _budget.get()
        budget.spend(1 + _parts(value) + _parts(instance))
        if name in ("anyOf", "oneOf"):
            # The error of `false` is made outside of any keyword, thus uncounted.
            value = [{"not": {}} if part is False else part for part in value]
        with budget.deeper():
            for error in check(validator, value, instance, schema) or ():
                budget.spend(_STEPS_AN_ERROR + len(error.message) // _CHARACTERS_A_STEP)
                yield error

    return counted


def _parts(value: Any) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


def _pass(*_: Any) -> None:
    return None


def _canonical(value: Any) -> bytes:
    """Equal for values that JSON Schema calls equal."""
    made = orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS)
    _budget.get().spend(len(made) // _CHARACTERS_A_STEP)
    return made


def _plain(value: Any) -> Any:
    """With whole numbers written in one way: 1.0 is 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**64 else value
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not wanted or not validator.is_type(instance, "array"):
        return
    seen: set[bytes] = set()
    for item in instance:
        key = _canonical(item)
        if key in seen:
            yield ValidationError(f"{item!r} is there more than once")
            return
        seen.add(key)


def _enum(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    key = _canonical(instance)
    if all(_canonical(each) != key for each in allowed):
        yield ValidationError(f"{instance!r} is not one of {allowed!r}")


def _const(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if _canonical(instance) != _canonical(wanted):
        yield ValidationError(f"{wanted!r} was expected")


def _found(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=_budget.get().left_s, concurrent=True) is not None
    except TimeoutError as error:
        raise TooComplex from error


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _found(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(check: Keyword, patterns: bool) -> Keyword:
    """The library's own runs the patterns beside it, so it gets only what none of them names."""

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError] | None:
        named = schema.get("patternProperties")
        if not named or not validator.is_type(instance, "object"):
            return check(validator, value, instance, schema)
        if not patterns:
            return None  # which are additional is not known
        rest = {key: part for key, part in instance.items() if not any(_found(each, key) for each in named)}
        return check(validator, value, rest, {"properties": schema.get("properties", {})})

    return additional
