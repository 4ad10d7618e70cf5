"""Tables of tenants, and of keys that stand in the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from antiphon.settings.quotas import QuotaSettings
from antiphon.settings.table import Table


class TenantSettings(Table):
    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    tier: str = "enterprise"
    models: tuple[str, ...] | None = Field(None, description="Absent: every model; empty: none.")
    tools: tuple[str, ...] | None = Field(
        None,
        description="Tools of the server, and types of tools of the upstream, that its runs may have, as in "
        "`[[agent]]`. Absent: all; empty: none.",
    )
    sockets: int | None = Field(None, ge=0, description="Open sockets on each node. Absent: no limit of its own.")
    quotas: QuotaSettings = Field(QuotaSettings(), description="In place of single numbers of its tier.")


class KeySettings(Table):
    """A static API key. `sha256`: hex digest of the key; the key itself is never in the file."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    name: str | None = None
    user: str | None = None
    tenant: str = Field("default", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    role: Literal["viewer", "driver", "operator", "admin"] = "driver"
