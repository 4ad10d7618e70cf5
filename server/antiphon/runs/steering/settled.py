"""What became of a steer once its target had ended, as data: its sender may be on another node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon.core.steering import Stage
from antiphon.errors import AntiphonError


@dataclass(frozen=True, slots=True)
class SteerSettled:
    """stage: `pending`, `failed` or `applied`. number: the last of the target's log. given: the input as sent.

    error: why it failed. required_input: what has to be sent before pending steers are heard.
    """

    steer_id: str
    response_id: str
    stage: Stage
    number: int
    given: str | list[Any]
    error: AntiphonError | None = None
    required_input: list[dict[str, Any]] = field(default_factory=list)


SettledListener = Callable[[SteerSettled], None]
"""Called once for each steer that was accepted, after its target has ended."""


@dataclass(frozen=True, slots=True)
class SteerTaken:
    """A steer was accepted. number: the last of the target's log. successor_id: the run that follows, if one does
    by itself."""

    steer_id: str
    response_id: str
    number: int
    successor_id: str | None
