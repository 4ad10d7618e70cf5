"""Credentials to principals: static keys from the configuration, or everybody when authentication is off."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from antiphon.core.principal import LOCAL, Principal
from antiphon.errors import Unauthorized
from antiphon.settings import KeySettings, TenantSettings

_BEARER = "bearer "


class NoAuthentication:
    """Authentication is off: whoever can reach the address is the local user. Credentials sent are ignored."""

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        return LOCAL


class StaticKeys:
    """`Authorization: Bearer <key>`, compared by SHA-256. The keys themselves are nowhere on the server."""

    def __init__(self, keys: tuple[KeySettings, ...], tenants: tuple[TenantSettings, ...]) -> None:
        tiers = {tenant.id: tenant.tier for tenant in tenants}
        self._principals = {key.sha256: _principal(key, tiers.get(key.tenant, "enterprise")) for key in keys}

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        given = headers.get("authorization", "")
        if given[: len(_BEARER)].lower() != _BEARER:
            raise Unauthorized(
                "Send your key as `Authorization: Bearer <key>`.", headers={"www-authenticate": "Bearer"}
            )
        # A lookup by digest: how long it takes says nothing about how close a wrong key was.
        digest = hashlib.sha256(given[len(_BEARER) :].strip().encode()).hexdigest()
        principal = self._principals.get(digest)
        if principal is None:
            raise Unauthorized("This key is not known here.", headers={"www-authenticate": "Bearer"})
        return principal


def _principal(key: KeySettings, tier: str) -> Principal:
    name = f"user:{key.user}" if key.user else f"key:{key.name or key.sha256[:12]}"
    return Principal(id=name, tenant=key.tenant, role=key.role, tier=tier)
