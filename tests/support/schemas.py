"""Three judges of one frame: our models, our generated JSON Schema, and the Open Responses specification.

Each `validate_*` returns None or raises: `pydantic.ValidationError` or `jsonschema.ValidationError`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from antiphon_protocol.events import SERVER_EVENT_TYPES, server_event
from antiphon_protocol.extension import COMMAND_TYPES, EXTENSION_EVENT_TYPES, extension_event
from antiphon_protocol.requests import REQUEST_TYPES, client_event
from antiphon_protocol.schema import FOLDER

SPEC_PREFIX = "#/components/schemas/"


def validate_own(event: dict[str, Any]) -> None:
    """A frame from server to client against the pydantic models, `antiphon:` frames included."""
    if str(event.get("type", "")).startswith("antiphon:"):
        extension_event.validate_python(event)
    else:
        server_event.validate_python(event)


def validate_own_client(frame: dict[str, Any]) -> None:
    """A frame from client to server against the pydantic models."""
    client_event.validate_python(frame)


def validate_own_schema(event: dict[str, Any]) -> None:
    """A frame of either direction against the JSON Schema files in `protocol/schema/`."""
    kind = event.get("type")
    if not isinstance(kind, str):
        raise ValidationError("a frame has a type")
    _own_validator(kind).validate(event)


def validate_open_responses(event: dict[str, Any]) -> None:
    """A server event against the Open Responses specification, if it knows the type; else nothing is checked.

    Its `code` and `reason` are free strings, so our own values need no exception. What is of a kind the
    specification does not know (an item, part, annotation, tool or tool choice with another `type`) is an
    extension and passes; what is of a known kind has to be right in every field.
    """
    name = _spec_names().get(event.get("type", ""))
    if event.get("type") == "error" and "status" in event:
        name = "WebSocketErrorEvent"
    if name is not None:
        _spec_validator(name).validate(event)


def open_responses_types() -> frozenset[str]:
    """The event types the Open Responses specification knows."""
    return frozenset(_spec_names())


def open_responses_fields(name: str) -> set[str]:
    """The fields that an object of the Open Responses specification can have."""
    return set(_spec()[name]["properties"])


@cache
def _own_validator(kind: str) -> Draft202012Validator:
    if kind in COMMAND_TYPES or kind in EXTENSION_EVENT_TYPES:
        name = "extension.json"
    elif kind in REQUEST_TYPES:
        name = "client_events.json"
    elif kind in SERVER_EVENT_TYPES:
        name = "server_events.json"
    else:
        raise ValidationError(f"no frame has the type {kind!r}")
    schema = _own_schema(name)
    # Going straight to the frame's own definition gives errors one can read, and is fast.
    return Draft202012Validator({"$ref": schema["discriminator"]["mapping"][kind], "$defs": schema["$defs"]})


@cache
def _own_schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return schema


@cache
def _spec() -> dict[str, Any]:
    text = files("llm_comply").joinpath("specs/openresponses.json").read_text(encoding="utf-8")
    schemas: dict[str, Any] = json.loads(text)["components"]["schemas"]
    _let_unknown_kinds_pass(schemas, schemas)
    return schemas


@cache
def _spec_names() -> dict[str, str]:
    """Event type -> name of its schema."""
    return {
        schema["properties"]["type"]["enum"][0]: name
        for name, schema in _spec().items()
        if name.endswith("StreamingEvent")
    }


@cache
def _spec_validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": SPEC_PREFIX + name, "components": {"schemas": _spec()}})


def _let_unknown_kinds_pass(node: Any, schemas: dict[str, Any]) -> None:
    """Add to every choice between kinds one more branch: an object with a `type` none of them has."""
    if isinstance(node, list):
        for child in node:
            _let_unknown_kinds_pass(child, schemas)
    if not isinstance(node, dict):
        return
    for child in list(node.values()):
        _let_unknown_kinds_pass(child, schemas)
    known = _kinds(node.get("oneOf"), schemas)
    if known:
        other = {"type": "string", "not": {"enum": known}}
        node["oneOf"].append({"type": "object", "required": ["type"], "properties": {"type": other}})


def _kinds(branches: Any, schemas: dict[str, Any]) -> list[str]:
    """The values of `type` of the branches that are objects with one."""
    kinds: list[str] = []
    for branch in branches if isinstance(branches, list) else ():
        target = schemas.get(branch.get("$ref", "").removeprefix(SPEC_PREFIX), {})
        kinds += target.get("properties", {}).get("type", {}).get("enum", [])
    return kinds
