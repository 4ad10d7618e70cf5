"""Arguments against JSON Schemas, compiled once and never fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from antiphon.core.json_input import parse_object
from antiphon.errors import RequestError, ToolError

_MAX_DEPTH = 128
_MAX_REASON = 300


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises ValueError with the reason if it is no JSON Schema of an object."""
    reason = _fault_of(_encoded(schema))
    if reason is not None:
        raise ValueError(reason)


@lru_cache(maxsize=4096)
def _fault_of(encoded: bytes) -> str | None:
    schema = orjson.loads(encoded)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its type is not object"
    try:
        validator = _compiled(encoded, True)
        validator.check_schema(schema)
        # One trial finds references that lead nowhere, or in a circle.
        for _ in validator.iter_errors({}):
            break
    except SchemaError as error:
        return f"{error.json_path}: {_short(error.message)}"
    except Unresolvable:
        return "a $ref cannot be resolved within it"
    except RecursionError:
        return "it is nested too deeply"
    except Exception as error:
        return f"it cannot be applied ({type(error).__name__})"
    return None


def parse_arguments(text: str, schema: Mapping[str, Any], *, patterns: bool = True) -> dict[str, Any]:
    """What a model wrote, held to the schema. Nothing at all counts as no arguments.

    patterns: whether regular expressions of the schema are run. One from outside could take for ever.
    Raises ToolError with a sentence by which the model can mend its call.
    """
    try:
        arguments = parse_object(text, _MAX_DEPTH) if text.strip() else {}
    except RequestError as error:
        raise ToolError(f"The arguments are not a JSON object: {error.message}") from error
    try:
        misfit = _best(_compiled(_encoded(schema), patterns), arguments)
    except (Unresolvable, RecursionError, ValueError, TypeError) as fault:
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
def _compiled(schema: bytes, patterns: bool) -> Validator:
    parsed = orjson.loads(schema)
    kind = validator_for(parsed, default=Draft202012Validator)
    if not patterns:
        kind = extend(kind, {"pattern": _pass, "patternProperties": _pass})  # type: ignore[no-untyped-call]
    # An empty registry: a $ref to an address on the network leads nowhere.
    return kind(parsed, registry=Registry())


def _pass(*_: Any) -> None:
    return None
