"""Tables of model servers, and of what is done when one fails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from antiphon.settings.table import Table


class RetrySettings(Table):
    """A failed call of a model is made again, as long as nothing of its answer was delivered."""

    max_attempts: int = Field(3, ge=1, le=20, description="Calls in all; 1 repeats nothing.")
    base_ms: float = Field(500, ge=0, description="Upper end of the first random wait; it doubles each time.")
    max_wait_s: float = Field(8, ge=0, description="Where it stops doubling.")
    retry_after_max_s: float = Field(
        20, ge=0, description="An upstream whose Retry-After is longer fails the call at once."
    )


class BreakerSettings(Table):
    """An upstream that keeps failing is left alone for a while, then one call probes it."""

    failures: int = Field(5, ge=1, description="Failures in a row after which it is not asked any more.")
    open_s: float = Field(30, gt=0, description="How long.")


class UpstreamSettings(Table):
    """A model server. `key` is a secret; prefer `key_env`, the name of a variable that holds it."""

    name: str
    url: str
    api: Literal["responses", "chat"] = Field("responses", description="`responses`, or `chat`.")
    key: SecretStr | None = None
    key_env: str | None = None
    models: tuple[str, ...] | None = Field(None, description="Absent: asked from /models.")
    caller_key: bool = Field(False, description="Callers may bring their own token for this upstream.")
    native_tools: tuple[str, ...] | None = Field(
        None,
        description="Tool types it executes itself, such as `web_search`. Absent: all with `responses`, none with "
        "`chat`.",
    )
    ignore_tools: tuple[str, ...] = Field(
        (), description="Tool types that are left out of a request where nobody here has them, instead of refused."
    )
    native_compaction: bool = Field(False, description="It compacts histories itself; the server leaves it to it.")
