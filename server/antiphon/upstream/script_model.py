"""The shape of scenario files: `scripts/<name>.toml`. Unknown keys are errors, messages name file and key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from antiphon.errors import UpstreamError


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(_Table):
    """A call of a client's function. arguments: a table, or the text as it is to be sent."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    call_id: str | None = Field(None, description="Absent: a new one each time.")


class CustomCall(_Table):
    """A call of a client's custom tool with free text."""

    name: str
    input: str = ""
    call_id: str | None = None


class Failure(_Table):
    """The upstream says `response.failed`."""

    code: str = "server_error"
    message: str = "The script fails here."


class Refusal(_Table):
    """The upstream raises an error of its own with an HTTP status; before the first event it refuses the call."""

    status: int = Field(503, ge=400, le=599)
    code: str = "upstream_error"
    message: str = "The script refuses here."
    retry_after_s: int | None = Field(None, ge=0)


class Usage(_Table):
    """Tokens that the end of the turn reports. Absent: words are counted."""

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    reasoning_tokens: int = Field(0, ge=0)


_WHAT = (
    "text",
    "reasoning",
    "delay_s",
    "call",
    "custom",
    "event",
    "incomplete",
    "error",
    "refuse",
    "crash",
    "cut",
)


class Step(_Table):
    """One step: exactly one of the keys that say what happens, and for texts how.

    text, reasoning: words of the message or of the reasoning summary; `{n}` is the number of the repetition.
    delay_s: silence. call, custom: a call of the client. event: one event as it stands, for oddities.
    incomplete: end with this reason. error: end with `response.failed`. refuse: raise an upstream's error.
    crash: raise a RuntimeError with this text. cut: end without a terminal event.
    """

    text: str | None = None
    reasoning: str | None = None
    delay_s: float | None = Field(None, ge=0)
    call: Call | None = None
    custom: CustomCall | None = None
    event: dict[str, Any] | None = None
    incomplete: str | None = None
    error: Failure | None = None
    refuse: Refusal | None = None
    crash: str | None = None
    cut: Literal[True] | None = None

    chunk: Literal["word", "all"] | Annotated[int, Field(gt=0)] = Field(
        "word", description="What one delta holds: a word, all of it, or so many characters."
    )
    rate: float = Field(0, ge=0, description="Deltas per second; 0 is as fast as they are taken.")
    repeat: int = Field(1, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        said = [key for key in _WHAT if getattr(self, key) is not None]
        if len(said) != 1:
            raise ValueError(f"a step says exactly one of {', '.join(_WHAT)}; this one says {said or 'none'}")
        if said[0] not in ("text", "reasoning") and self.model_fields_set & {"chunk", "rate", "repeat"}:
            raise ValueError(f"chunk, rate and repeat belong to text and reasoning, not to {said[0]}")
        return self


class Turn(_Table):
    """What one call of the model plays."""

    steps: tuple[Step, ...] = ()
    usage: Usage | None = None


class Script(_Table):
    """A scenario. The first turn answers the user, the next one the tool outputs that follow, and so on;

    the last turn is played again when there are more calls than turns.
    """

    description: str = ""
    turns: tuple[Turn, ...] = Field(min_length=1)


def load_script(path: Path) -> Script:
    """Read and check a file. Raises UpstreamError that names the file and each wrong key."""
    try:
        return Script.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        wrong = str(error)
    raise UpstreamError(f"The script {path.name} is not valid: {wrong}.", status=500)
