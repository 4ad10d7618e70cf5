"""The unions: everything a socket of ours can say in the standard vocabulary, and what an SSE body can."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from antiphon_protocol import events_hosted as hosted
from antiphon_protocol import events_response as own
from antiphon_protocol import notices
from antiphon_protocol.base import type_names
from antiphon_protocol.errors import ErrorEvent, SseErrorEvent

AnyLogEvent = (
    own.ResponseCreated
    | own.ResponseQueued
    | own.ResponseInProgress
    | own.ResponseCompleted
    | own.ResponseIncomplete
    | own.ResponseFailed
    | own.OutputItemAdded
    | own.OutputItemDone
    | own.ContentPartAdded
    | own.ContentPartDone
    | own.OutputTextDelta
    | own.OutputTextDone
    | own.AnnotationAdded
    | own.RefusalDelta
    | own.RefusalDone
    | own.ReasoningTextDelta
    | own.ReasoningTextDone
    | own.ReasoningSummaryPartAdded
    | own.ReasoningSummaryPartDone
    | own.ReasoningSummaryTextDelta
    | own.ReasoningSummaryTextDone
    | own.FunctionCallArgumentsDelta
    | own.FunctionCallArgumentsDone
    | own.CustomToolCallInputDelta
    | own.CustomToolCallInputDone
    | hosted.AudioDelta
    | hosted.AudioDone
    | hosted.AudioTranscriptDelta
    | hosted.AudioTranscriptDone
    | hosted.CodeInterpreterState
    | hosted.CodeInterpreterCodeDelta
    | hosted.CodeInterpreterCodeDone
    | hosted.CompactionCompacting
    | hosted.FileSearchState
    | hosted.WebSearchState
    | hosted.ImageGenerationState
    | hosted.ImageGenerationPartialImage
    | hosted.McpCallState
    | hosted.McpCallArgumentsDelta
    | hosted.McpCallArgumentsDone
    | hosted.McpListToolsState
    | hosted.ShellCommandAdded
    | hosted.ShellCommandDelta
    | hosted.ShellCommandDone
    | hosted.ShellOutputDelta
    | hosted.ShellOutputDone
)
AnyNotice = (
    notices.Keepalive
    | notices.SteerAccepted
    | notices.SteerPending
    | notices.SteerFailed
    | notices.InjectCreated
    | notices.InjectFailed
)

LogEvent = Annotated[AnyLogEvent, Field(discriminator="type")]
"""An event of a run's log."""

ServerEvent = Annotated[AnyLogEvent | AnyNotice | ErrorEvent, Field(discriminator="type")]
"""Every standard frame from server to client on a socket."""

SseEvent = Annotated[AnyLogEvent | SseErrorEvent, Field(discriminator="type")]
"""Every event of the vendor's SSE streams: what we accept from an upstream."""

LOG_EVENT_TYPES: frozenset[str] = type_names(LogEvent)
SERVER_EVENT_TYPES: frozenset[str] = type_names(ServerEvent)
SSE_EVENT_TYPES: frozenset[str] = type_names(SseEvent)
TERMINAL_TYPES = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""The last event of a log is one of these, and no other event is."""

server_event: TypeAdapter[AnyLogEvent | AnyNotice | ErrorEvent] = TypeAdapter(ServerEvent)
"""`server_event.validate_python(frame)` gives the typed frame or raises `pydantic.ValidationError`."""

sse_event: TypeAdapter[AnyLogEvent | SseErrorEvent] = TypeAdapter(SseEvent)
