"""Parts of messages and reasoning items, and what hangs on text: annotations and log probabilities."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_protocol.base import Count, Id, JsonObject, Wire, opt, other_than, type_names, type_of


class TopLogProb(Wire):
    """One alternative token. OpenAI's streaming events leave out any of these, so none is required."""

    token: str | None = opt()
    logprob: float | None = opt()
    bytes: list[int] | None = opt()


class LogProb(Wire):
    """How probable one token was."""

    token: str
    logprob: float
    bytes: list[int] | None = opt("UTF-8 bytes of the token.")
    top_logprobs: list[TopLogProb] | None = opt()


class UrlCitation(Wire):
    """Text backed by a web page. Indices count characters of the part's text."""

    type: Literal["url_citation"]
    url: str
    title: str
    start_index: Count
    end_index: Count


class FileCitation(Wire):
    """Text backed by a file."""

    type: Literal["file_citation"]
    file_id: Id
    filename: str
    index: Count


class ContainerFileCitation(Wire):
    """Text backed by a file in a tool's container."""

    type: Literal["container_file_citation"]
    container_id: Id
    file_id: Id
    filename: str
    start_index: Count
    end_index: Count


class FilePath(Wire):
    """Text that is the path of a file."""

    type: Literal["file_path"]
    file_id: Id
    index: Count


class UnknownAnnotation(Wire):
    """An annotation of a kind this version does not know. It is passed on as it is."""

    model_config = other_than(lambda: ANNOTATION_TYPES)

    type: Id


KnownAnnotation = Annotated[
    UrlCitation | FileCitation | ContainerFileCitation | FilePath, Field(discriminator="type")
]
ANNOTATION_TYPES: frozenset[str] = type_names(KnownAnnotation)


def _annotation_kind(value: Any) -> str:
    return "known" if type_of(value) in ANNOTATION_TYPES else "unknown"


Annotation = Annotated[
    Annotated[KnownAnnotation, Tag("known")] | Annotated[UnknownAnnotation, Tag("unknown")],
    Discriminator(_annotation_kind),
]


class OutputText(Wire):
    """Text the model wrote."""

    type: Literal["output_text"]
    text: str
    annotations: list[Annotation]
    logprobs: list[LogProb] | None = opt()


class Refusal(Wire):
    """The model's words for declining."""

    type: Literal["refusal"]
    refusal: str


class SummaryText(Wire):
    """A part of a reasoning summary."""

    type: Literal["summary_text"]
    text: str


class ReasoningText(Wire):
    """A part of the reasoning itself."""

    type: Literal["reasoning_text"]
    text: str


class InputText(Wire):
    """Text given to the model."""

    type: Literal["input_text"]
    text: str


class InputImage(Wire):
    """An image given to the model, by file id, URL or data URL."""

    type: Literal["input_image"]
    detail: Literal["low", "high", "auto", "original"] | None = opt()
    image_url: str | None = None
    file_id: Id | None = opt()


class InputFile(Wire):
    """A file given to the model, by id, URL or base64 data."""

    type: Literal["input_file"]
    file_id: Id | None = opt()
    file_url: str | None = opt()
    file_data: str | None = opt()
    filename: str | None = opt()


class UnknownPart(Wire):
    """A part of a kind this version does not know. It is passed on as it is."""

    model_config = other_than(lambda: PART_TYPES)

    type: Id


KnownPart = Annotated[
    OutputText | Refusal | SummaryText | ReasoningText | InputText | InputImage | InputFile,
    Field(discriminator="type"),
]
PART_TYPES: frozenset[str] = type_names(KnownPart)


def _part_kind(value: Any) -> str:
    return "known" if type_of(value) in PART_TYPES else "unknown"


Part = Annotated[
    Annotated[KnownPart, Tag("known")] | Annotated[UnknownPart, Tag("unknown")], Discriminator(_part_kind)
]
"""Any content part."""

OutputPart = Annotated[OutputText | Refusal | ReasoningText, Field(discriminator="type")]
"""What `response.content_part.*` events carry."""

ToolOutput = str | list[Part]
"""What a tool gave back: text, or parts."""

CallerFields = JsonObject
"""Who made a call: `{"type": "direct"}` or `{"type": "program", "caller_id": ...}`."""
