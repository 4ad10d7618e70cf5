"""What every table of the settings is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """One table of `antiphon.toml`: it never changes, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
