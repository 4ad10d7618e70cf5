"""The OpenAPI document. `python -m antiphon.transport.openapi.document` writes it, `--check` only compares."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from antiphon.transport.openapi.operations import EVENTS, OPERATIONS, TEXT, Operation, Schema
from antiphon_protocol.bodies import ErrorResponse
from antiphon_protocol.extension import PROTOCOL_VERSION
from antiphon_protocol.schema import FOLDER

FILE = FOLDER.parent / "openapi.json"

_ABOUT = (
    "The HTTP side of the protocol that PROTOCOL.md describes. The same path takes the upgrade of a socket, "
    "`GET /v1/responses`, which OpenAPI has no words for; its frames are in the JSON Schemas beside this file. "
    "Fields that are not named here are accepted and ignored, except where the protocol says otherwise."
)
_JSON = "application/json"
_NAMES = re.compile(r"\{(\w+)\}")


@cache
def document() -> dict[str, Any]:
    """The whole of it. The same code always gives the same."""
    types = {name: kind for name, one in OPERATIONS.items() for name, kind in _types(name, one)}
    types["error"] = ErrorResponse
    inputs = [(name, "validation", TypeAdapter(kind)) for name, kind in types.items()]
    schemas, definitions = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    by_type = {name: _typed(schema) for (name, _), schema in schemas.items()}
    paths: dict[str, dict[str, Any]] = {}
    for name, one in OPERATIONS.items():
        method, path = name.split(" ")
        paths.setdefault(path, {})[method.lower()] = _operation(name, one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Antiphon", "version": str(PROTOCOL_VERSION), "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {name: _typed(schema) for name, schema in definitions.get("$defs", {}).items()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def encoded() -> str:
    """As it is written and served."""
    return json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _types(name: str, one: Operation) -> list[tuple[str, Any]]:
    parts = (("body", one.body), ("answer", one.answer), ("failure", one.at_failure))
    return [(f"{name} {part}", kind) for part, kind in parts if kind is not None]


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """A `type` has a default in Python only; on the wire it is always there."""
    kind = schema.get("properties", {}).get("type", {})
    if kind.get("default") is not None and kind.get("const") != "message":
        del kind["default"]
        schema["required"] = sorted({*schema.get("required", []), "type"})
    return schema


def _operation(name: str, one: Operation, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    method, path = name.split(" ")
    parameters = [_parameter("path", part, TEXT, required=True) for part in _NAMES.findall(path)]
    parameters += [_parameter("query", key, schema) for key, schema in one.query.items()]
    parameters += [_parameter("header", key, schema) for key, schema in one.headers.items()]
    described: dict[str, Any] = {
        "operationId": _id(method, path),
        "summary": one.summary,
        "responses": {str(one.status): _success(name, one, schemas), "default": _failure(name, one, schemas)},
    }
    if one.status == 201:
        described["responses"]["200"] = described["responses"]["201"]  # there was one, which it took the place of
    if parameters:
        described["parameters"] = parameters
    if one.body is not None:
        content = {_JSON: {"schema": schemas[f"{name} body"]}}
        described["requestBody"] = {"required": one.body_needed, "content": content}
    if one.open:
        described["security"] = []
    return described


def _parameter(place: str, name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": dict(schema)}


def _success(name: str, one: Operation, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {"schema": dict(TEXT)} for kind in one.also}
    if one.answer is not None:
        content[_JSON] = {"schema": schemas[f"{name} answer"]}
    about = "Events, each with its name and number." if EVENTS in one.also else "Done."
    success: dict[str, Any] = {"description": about, "content": content}
    if one.gives is not None:
        success["links"] = _links(*one.gives)
    return success


def _links(parameter: str, place: str) -> dict[str, Any]:
    """To the operations on what was given."""
    others = [name.split(" ") for name in OPERATIONS if _NAMES.findall(name) == [parameter]]
    values = {parameter: f"$response.body#{place}"}
    return {_id(*other): {"operationId": _id(*other), "parameters": values} for other in others}


def _failure(name: str, one: Operation, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    schema = schemas["error"]
    if one.at_failure is not None:
        schema = {"anyOf": [schema, schemas[f"{name} failure"]]}
    return {"description": "Why it was refused or failed.", "content": {_JSON: {"schema": schema}}}


def _id(method: str, path: str) -> str:
    """`GET /v1/responses/{response_id}/input_items` is get_responses_by_id_input_items."""
    words = [
        ("by_id" if part.startswith("{") else part) for part in re.split(r"[/.]", path) if part not in ("", "v1")
    ]
    return "_".join([method.lower(), *words])


def main(arguments: list[str], file: Path = FILE) -> int:
    """Exit code: 0 in step, 1 drift."""
    if "--check" not in arguments:
        file.write_text(encoded(), encoding="utf-8")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == encoded():
        return 0
    sys.stderr.write(f"{file.name} differs from the models; run python -m {__spec__.name}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
