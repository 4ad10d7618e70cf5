"""Events of a response, its items, its text and its reasoning."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from antiphon_protocol.base import Count, Id, StreamId, Wire, opt
from antiphon_protocol.content import Annotation, LogProb, OutputPart, SummaryText
from antiphon_protocol.items import Item
from antiphon_protocol.response import Response


class Event(Wire):
    """An event of a run's log (PROTOCOL 6). Numbers start at 0 and have no holes."""

    sequence_number: Count
    stream_id: StreamId | None = opt("The lane, on a socket and only on a named lane.")


class OfItem(Event):
    """An event about the item at `output_index` of the response."""

    item_id: Id
    output_index: Count


class OfPart(OfItem):
    """An event about the part at `content_index` of that item."""

    content_index: Count


class Lifecycle(Event):
    """An event that carries the whole response as it then is."""

    response: Response

    def _must_be(self, *statuses: str) -> None:
        if self.response.status not in statuses:
            raise ValueError(f"status {self.response.status!r} is not one of {', '.join(statuses)}")


class ResponseCreated(Lifecycle):
    """The run exists. Always number 0."""

    type: Literal["response.created"]

    @model_validator(mode="after")
    def _begins(self) -> ResponseCreated:
        self._must_be("queued", "in_progress")
        return self


class ResponseQueued(Lifecycle):
    """The run waits for its turn."""

    type: Literal["response.queued"]

    @model_validator(mode="after")
    def _waits(self) -> ResponseQueued:
        self._must_be("queued")
        return self


class ResponseInProgress(Lifecycle):
    """The run works."""

    type: Literal["response.in_progress"]

    @model_validator(mode="after")
    def _works(self) -> ResponseInProgress:
        self._must_be("in_progress")
        return self


class ResponseCompleted(Lifecycle):
    """Terminal: the model said all it wanted to say."""

    type: Literal["response.completed"]

    @model_validator(mode="after")
    def _is_complete(self) -> ResponseCompleted:
        self._must_be("completed")
        return self


class ResponseIncomplete(Lifecycle):
    """Terminal: cut short on purpose; `incomplete_details.reason` says why. Also ends a cancelled run."""

    type: Literal["response.incomplete"]

    @model_validator(mode="after")
    def _has_a_reason(self) -> ResponseIncomplete:
        self._must_be("incomplete", "cancelled")
        if self.response.incomplete_details is None:
            raise ValueError("an incomplete response names a reason")
        return self


class ResponseFailed(Lifecycle):
    """Terminal: broken off by a fault; `error` says which."""

    type: Literal["response.failed"]

    @model_validator(mode="after")
    def _has_an_error(self) -> ResponseFailed:
        self._must_be("failed")
        if self.response.error is None:
            raise ValueError("a failed response has an error")
        return self


class OutputItemAdded(Event):
    """A new item begins."""

    type: Literal["response.output_item.added"]
    output_index: Count
    item: Item


class OutputItemDone(Event):
    """The item is finished and will not change."""

    type: Literal["response.output_item.done"]
    output_index: Count
    item: Item


class ContentPartAdded(OfPart):
    """A new part of a message or reasoning item begins."""

    type: Literal["response.content_part.added"]
    part: OutputPart


class ContentPartDone(OfPart):
    """The part is finished."""

    type: Literal["response.content_part.done"]
    part: OutputPart


class OutputTextDelta(OfPart):
    """More text."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: list[LogProb]
    obfuscation: str | None = opt()


class OutputTextDone(OfPart):
    """All the text of the part."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: list[LogProb]


class AnnotationAdded(OfPart):
    """Text of the part got an annotation."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: Count
    annotation: Annotation | None = None


class RefusalDelta(OfPart):
    """More words of a refusal."""

    type: Literal["response.refusal.delta"]
    delta: str


class RefusalDone(OfPart):
    """The whole refusal."""

    type: Literal["response.refusal.done"]
    refusal: str


class ReasoningTextDelta(OfPart):
    """More reasoning."""

    type: Literal["response.reasoning_text.delta"]
    delta: str


class ReasoningTextDone(OfPart):
    """All the reasoning of the part."""

    type: Literal["response.reasoning_text.done"]
    text: str


class ReasoningSummaryPartAdded(OfItem):
    """A new part of a reasoning summary begins."""

    type: Literal["response.reasoning_summary_part.added"]
    summary_index: Count
    part: SummaryText


class ReasoningSummaryPartDone(OfItem):
    """That part is finished."""

    type: Literal["response.reasoning_summary_part.done"]
    summary_index: Count
    part: SummaryText
    status: Literal["incomplete"] | None = opt()


class ReasoningSummaryTextDelta(OfItem):
    """More of a reasoning summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    summary_index: Count
    delta: str


class ReasoningSummaryTextDone(OfItem):
    """All the text of the summary's part."""

    type: Literal["response.reasoning_summary_text.done"]
    summary_index: Count
    text: str


class FunctionCallArgumentsDelta(OfItem):
    """More of a function call's arguments: pieces of JSON text."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class FunctionCallArgumentsDone(OfItem):
    """The whole arguments."""

    type: Literal["response.function_call_arguments.done"]
    arguments: str
    name: str | None = opt()


class CustomToolCallInputDelta(OfItem):
    """More of a custom tool call's input."""

    type: Literal["response.custom_tool_call_input.delta"]
    delta: str


class CustomToolCallInputDone(OfItem):
    """The whole input."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str
