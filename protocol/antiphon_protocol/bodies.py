"""Bodies of the HTTP routes that are not a response (PROTOCOL 11)."""

from __future__ import annotations

from typing import Literal

from antiphon_protocol.base import Count, Id, Wire, opt
from antiphon_protocol.errors import ErrorBody
from antiphon_protocol.input_items import InputItem
from antiphon_protocol.response import Response


class ErrorResponse(Wire):
    """Body of every refusal. `response` only with `cursor_expired`: the response as it now is."""

    error: ErrorBody
    response: Response | None = opt()


class ResponseDeleted(Wire):
    """Body of DELETE."""

    id: Id
    object: Literal["response"]
    deleted: Literal[True]


class InputItemList(Wire):
    """A page of a response's own input."""

    object: Literal["list"]
    data: list[InputItem]
    first_id: Id | None
    last_id: Id | None
    has_more: bool


class Model(Wire):
    """A model a create can name. `created` is Unix seconds."""

    id: Id
    object: Literal["model"]
    created: Count
    owned_by: str


class ModelList(Wire):
    """Body of `GET /v1/models`."""

    object: Literal["list"]
    data: list[Model]


class Health(Wire):
    """Body of `/health` and `/ready`."""

    status: Literal["ok", "ready", "starting", "draining", "unavailable"]
