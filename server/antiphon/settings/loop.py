"""The `[loop]` table: how long a run may go on by itself, and when a conversation counts as a loop."""

from __future__ import annotations

from pydantic import Field, model_validator

from antiphon.core.loop_detection import LoopLimits
from antiphon.settings.table import Table


class DetectionSettings(Table):
    """Identical turns of the model in one conversation: first warned, then forced to change, then halted."""

    enabled: bool = Field(True, description="Whether repeated turns are looked for at all.")
    window_turns: int = Field(10, ge=2, le=100, description="Model calls of a conversation that are compared.")
    signature_chars: int = Field(500, ge=1, le=100_000, description="Characters of an output that are compared.")
    min_bytes: int = Field(20, ge=0, description="Shorter outputs are ignored.")
    warn_at: int = Field(4, ge=2, description="Identical turns after which the model is warned.")
    force_at: int = Field(
        5, ge=2, description="After so many its tools are taken away, or its instructions changed."
    )
    halt_at: int = Field(7, ge=2, description="After so many the run ends `incomplete` with `loop_detected`.")

    @model_validator(mode="after")
    def _in_order(self) -> DetectionSettings:
        if not self.warn_at <= self.force_at <= self.halt_at <= self.window_turns:
            raise ValueError("warn_at, force_at, halt_at and window_turns have to be in rising order")
        return self

    @property
    def limits(self) -> LoopLimits:
        return LoopLimits(
            self.window_turns, self.signature_chars, self.min_bytes, self.warn_at, self.force_at, self.halt_at
        )


class LoopSettings(Table):
    """How long a run may go on by itself."""

    max_rounds: int = Field(10, ge=1, le=1000, description="Model calls of one run; then it ends `incomplete`.")
    detection: DetectionSettings = DetectionSettings()
