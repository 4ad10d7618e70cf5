"""Keys of the configuration: there from the start, for as long as it says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from antiphon.core.principal import Principal
from antiphon.settings.tenants import KeySettings

TOP_TIER = "enterprise"
"""Of a tenant that is not configured, or has none."""


def digest(secret: str) -> str:
    """Under what a key is known: looking it up says nothing about how close a wrong one was."""
    return hashlib.sha256(secret.encode()).hexdigest()


class StaticKeys:
    """Found by digest. The keys themselves are nowhere on the server."""

    def __init__(self, keys: Sequence[KeySettings], tiers: Mapping[str, str]) -> None:
        """tiers: by tenant."""
        self._principals = {key.sha256: _principal(key, tiers) for key in keys}

    def __len__(self) -> int:
        return len(self._principals)

    def find(self, sha256: str) -> Principal | None:
        """Whose key it is. sha256: see `digest`."""
        return self._principals.get(sha256)


def _principal(key: KeySettings, tiers: Mapping[str, str]) -> Principal:
    short = key.sha256[:12]
    name = f"user:{key.user}" if key.user else f"key:{key.name or short}"
    tier = tiers.get(key.tenant, TOP_TIER)
    return Principal(name, key.tenant, key.role, tier, credential=f"static:{short}")
