"""Arguments against JSON Schemas, compiled once, never fetched from anywhere, at a bounded cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import orjson
import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from antiphon.core.json_input import parse_object
from antiphon.errors import RequestError, ToolError
from antiphon.tools.schema_keywords import Budget, TooComplex, bounded, spending, without_dialects

_MAX_DEPTH = 128
_MAX_REASON = 300
_MAX_SCHEMA_BYTES = 256 * 1024

_MAX_CHARACTERS = 4 * 1024 * 1024
"""Reading JSON lets nobody else run meanwhile: this much takes up to a tenth of a second."""

_QUICK_CHARACTERS = 16 * 1024
_QUICK_STEPS, _QUICK_CPU_S = 2_000, 0.02
"""What may be checked in the event loop itself; a step costs some microseconds."""

_SLOW_STEPS, _SLOW_CPU_S = 500_000, 2.0
_SCHEMA_STEPS, _SCHEMA_CPU_S = 200_000, 1.0

_workers = ThreadPoolExecutor(2, thread_name_prefix="arguments")
"""For what is too large for the loop. Few: each thread that computes slows the loop down."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises ValueError with the reason if it is no JSON Schema of an object. It may take a second."""
    encoded = _encoded(schema)
    if len(encoded) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"it is larger than {_MAX_SCHEMA_BYTES} bytes")
    reason = _fault_of(encoded)
    if reason is not None:
        raise ValueError(reason)


@lru_cache(maxsize=4096)
def _fault_of(encoded: bytes) -> str | None:
    schema = orjson.loads(encoded)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its type is not object"
    try:
        with spending(Budget(_SCHEMA_STEPS, _SCHEMA_CPU_S)):
            return _misfit_of(schema) or _trial(encoded)
    except SchemaError as error:
        return f"{error.json_path}: {_short(error.message)}"
    except Unresolvable:
        return "a $ref cannot be resolved within it"
    except TooComplex:
        return "it is too complex to check arguments with"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return _short(str(error))
    except Exception as error:
        return f"it cannot be applied ({type(error).__name__})"


def _misfit_of(schema: dict[str, Any]) -> str | None:
    """Where it breaks the rules of its own dialect."""
    dialect = validator_for(schema, default=Draft202012Validator)
    rules = bounded(validator_for(dialect.META_SCHEMA, default=dialect), patterns=True)
    checker: Any = rules
    for error in checker(dialect.META_SCHEMA, format_checker=dialect.FORMAT_CHECKER).iter_errors(schema):
        return f"{error.json_path}: {_short(error.message)}"
    return None


def _trial(encoded: bytes) -> str | None:
    """References that lead nowhere, or in a circle, raise here."""
    for _ in _compiled(encoded, True).iter_errors({}):
        break
    return None


async def parse_arguments(text: str, schema: Mapping[str, Any], *, patterns: bool = True) -> dict[str, Any]:
    """What a model wrote, held to the schema. Nothing at all counts as no arguments.

    What is large or takes long is done in a thread, and given up after some seconds of computing.
    patterns: whether regular expressions of the schema are run.
    Raises ToolError with a sentence by which the model can mend its call.
    """
    if len(text) > _MAX_CHARACTERS:
        raise ToolError(f"The arguments are longer than {_MAX_CHARACTERS} characters.")
    if len(text) <= _QUICK_CHARACTERS:
        try:
            return _parse(text, schema, patterns, Budget(_QUICK_STEPS, _QUICK_CPU_S))
        except TooComplex:
            pass
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_workers, _parse_patiently, text, schema, patterns)


def _parse_patiently(text: str, schema: Mapping[str, Any], patterns: bool) -> dict[str, Any]:
    try:
        return _parse(text, schema, patterns, Budget(_SLOW_STEPS, _SLOW_CPU_S))
    except TooComplex:
        raise ToolError(
            "The arguments are too complex to check against the schema of this tool; send fewer or simpler ones."
        ) from None


def _parse(text: str, schema: Mapping[str, Any], patterns: bool, budget: Budget) -> dict[str, Any]:
    """Raises ToolError, and TooComplex if the budget is spent."""
    try:
        arguments = parse_object(text, _MAX_DEPTH) if text.strip() else {}
    except RequestError as error:
        raise ToolError(f"The arguments are not a JSON object: {error.message}") from error
    try:
        with spending(budget):
            misfit = _best(_compiled(_encoded(schema), patterns), arguments)
    except (Unresolvable, RecursionError, ValueError, TypeError, regex.error) as fault:
        raise ToolError("The schema of this tool cannot be applied to the arguments.") from fault
    if misfit is not None:
        raise ToolError(f"The arguments do not fit the schema at {misfit.json_path}: {_short(misfit.message)}")
    return arguments


def _best(validator: Validator, arguments: dict[str, Any]) -> ValidationError | None:
    best: ValidationError | None = best_match(validator.iter_errors(arguments))
    return best


def _short(message: str) -> str:
    return message if len(message) <= _MAX_REASON else f"{message[:_MAX_REASON]}..."


def _encoded(schema: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema)
    except TypeError as error:
        raise ValueError("it is not JSON") from error


@lru_cache(maxsize=512)
def _compiled(encoded: bytes, patterns: bool) -> Validator:
    parsed = orjson.loads(encoded)
    dialect = validator_for(parsed, default=Draft202012Validator)
    kind = _kind(dialect, patterns, b'"patternProperties"' not in encoded)
    # An empty registry: a $ref to an address on the network leads nowhere.
    return kind(without_dialects(parsed), registry=Registry())


@lru_cache(maxsize=64)
def _kind(dialect: type[Validator], patterns: bool, unevaluated: bool) -> type[Validator]:
    return bounded(dialect, patterns=patterns, unevaluated=unevaluated)
