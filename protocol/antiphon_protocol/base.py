"""What every model of the wire shares: strict types, names kept from the wire, unknown fields carried along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

STREAM_ID_PATTERN = r"^[A-Za-z0-9_.-]{1,256}$"

Id = Annotated[str, StringConstraints(min_length=1)]
"""An id. Never empty; its inner form means nothing to the receiver."""

StreamId = Annotated[str, StringConstraints(pattern=STREAM_ID_PATTERN)]
"""The name of a lane (PROTOCOL 4)."""

Count = Annotated[int, Field(ge=0)]
"""A number of things, a position in a list, or a size: never negative."""

JsonObject = dict[str, Any]
"""An object whose inside is not ours to judge: tool schemas, opaque payloads."""


Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
"""What a client writes on a response or a conversation."""


class FieldFault(ValueError):
    """A rule about several fields is broken. field: the one to name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Wire(BaseModel):
    """Base of all models. A field we do not know is kept, so that passing a frame on loses nothing."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, populate_by_name=True)

    def wire(self) -> dict[str, Any]:
        """The JSON object to send: wire names, optional fields that are not there left out."""
        return self.model_dump(mode="json", by_alias=True)


CommandId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""Chosen by the client; the one reply to the command echoes it."""


class Command(Wire):
    """What a client sends with the extension. Unknown fields are ignored."""

    id: CommandId


def _is_none(value: object) -> bool:
    return value is None


def opt(description: str | None = None, **constraints: Any) -> Any:
    """A field that may be missing. It is left out when None, so that `null` is never sent for it."""
    return Field(default=None, exclude_if=_is_none, description=description, **constraints)


def type_names(union: Any) -> frozenset[str]:
    """Every value of `type` in a discriminated union of models."""
    names: set[str] = set()
    for member in get_args(get_args(union)[0]):
        names.update(get_args(member.model_fields["type"].annotation))
    return frozenset(names)


def type_of(value: Any) -> Any:
    """The `type` of a frame, item or part, be it a parsed object or a model; None if it has none."""
    return value.get("type") if isinstance(value, dict) else getattr(value, "type", None)


def other_than(known: Callable[[], frozenset[str]]) -> ConfigDict:
    """Configuration of a fallback model: its JSON Schema refuses the types that have a model of their own.

    known: asked late, because the fallback is defined before the union that names the others.
    """

    def extra(schema: dict[str, Any]) -> None:
        schema["properties"]["type"]["not"] = {"enum": sorted(known())}

    return ConfigDict(json_schema_extra=extra)
