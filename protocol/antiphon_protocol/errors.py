"""Errors as they stand on the wire: one nested object, equal on HTTP, SSE and WebSocket."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from antiphon_protocol.base import Count, Id, StreamId, Wire, opt
from antiphon_protocol.held import CallConflict


class ErrorBody(CallConflict):
    """What went wrong. Fields that belong to one code (`epoch`, `fork`, `head`) stand beside `code`."""

    type: Id = Field(description="OpenAI's coarse class, e.g. `invalid_request_error`.")
    code: str | None = Field(description="Key of the code table, or an upstream's own code.")
    message: str = Field(description="One sentence a person can act on.")
    param: str | None = Field(description="The field at fault.")
    headers: dict[str, str] | None = opt("Retry hints, names in lower case.")
    epoch: Id | None = opt("With `epoch_changed`: the current epoch of the run.")
    fork: Count | None = opt("With `epoch_changed`: the first number of the epoch that followed yours.")
    head: Count | None = opt("With `cursor_in_future`: the last number of the run.")


class ErrorEvent(Wire):
    """Answer on a socket to a create, or to a frame, that was refused. It is in no log and has no number."""

    type: Literal["error"]
    status: int = Field(ge=400, le=599, description="The HTTP status the same refusal has.")
    error: ErrorBody
    stream_id: StreamId | None = opt("The lane of the create that was refused.")
    headers: dict[str, str] | None = opt("The same as `error.headers`; some clients read only these.")


class SseErrorEvent(Wire):
    """The flat `error` of the vendor's SSE streams. We accept it from upstreams and never send it."""

    type: Literal["error"]
    code: str | None
    message: str
    param: str | None
    sequence_number: Count
