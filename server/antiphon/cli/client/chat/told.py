"""What a chat tells the person, one thing each. Texts are as they came; who shows them makes them printable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antiphon.cli.client.questions import Question


@dataclass(frozen=True, slots=True)
class Began:
    """An answer begins. mine: to what was typed here. principal: who asked, if that is known."""

    run_id: str
    mine: bool
    principal: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """More text. item_id: of the message or reasoning it belongs to."""

    run_id: str
    item_id: str
    text: str
    is_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A call was made. output: what a tool of the server gave. failed: it gave an error."""

    run_id: str
    name: str
    arguments: str
    output: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody has to answer, and this terminal is asked."""

    question: Question


@dataclass(frozen=True, slots=True)
class Answered:
    """A question needs no answer any more. by: who gave one; None where the run ended instead."""

    question: Question
    by: str | None


@dataclass(frozen=True, slots=True)
class Rewound:
    """The end of what was shown of this run is not in its log any more; it goes on from before that."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer is over. status: `completed`, `incomplete`, `cancelled` or `failed`. code: of reason or error."""

    run_id: str
    status: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """What was typed was not taken, and is in nobody's hands but the person's."""

    code: str
    message: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What was typed into a running answer is taken."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Conversing:
    """The conversation has an id: it can be come back to, and shared."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class Before:
    """What was said up to this run is to be read over HTTP. is_ended: the run's own answer too."""

    run_id: str
    is_ended: bool


@dataclass(frozen=True, slots=True)
class Later:
    """Send this frame in a moment: the server could not take it now."""

    frame: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fatal:
    """What was asked for is not there, or not for us."""

    code: str
    message: str


Told = (
    Began
    | Piece
    | Called
    | Asked
    | Answered
    | Rewound
    | Ended
    | Refused
    | Heard
    | Conversing
    | Before
    | Later
    | Fatal
)
