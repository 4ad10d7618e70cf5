"""Who is let in, as the settings say."""

from __future__ import annotations

import os
from pathlib import Path

import httpx2

from antiphon.errors import StartupError
from antiphon.governance.identity.authenticator import Identity, NoAuthentication
from antiphon.governance.identity.failed_logins import FailedLogins
from antiphon.governance.identity.key_sets import KeySet, Secret, VerifyingKeys, file_reader, url_reader
from antiphon.governance.identity.revoked_tokens import RevokedTokens
from antiphon.governance.identity.static_keys import TOP_TIER, StaticKeys
from antiphon.governance.identity.stored_keys import StoredKeys
from antiphon.governance.identity.tickets import Tickets
from antiphon.governance.identity.tokens import Tokens
from antiphon.ports import Bus, Clock
from antiphon.settings import Settings
from antiphon.settings.identity import MIN_SECRET_BYTES, JwtSettings
from antiphon.store.api_keys import ApiKeys
from antiphon.store.reading import BoundedReader
from antiphon.store.revoked_tokens import RevokedTokenRows

_FILE_CACHE_S = 10.0
"""A key set in a file is read again after half of it."""


def build_identity(
    settings: Settings, reader: BoundedReader, bus: Bus, clock: Clock, config: Path | None
) -> Identity | NoAuthentication:
    """config: the file the settings are from. Raises StartupError."""
    tickets = Tickets(bus, clock, settings.identity.ticket_s)
    if not settings.auth_required:
        return NoAuthentication(tickets)
    tiers = {tenant.id: tenant.tier for tenant in settings.tenant}
    verifier = Verifier(settings.jwt, clock, config) if settings.jwt is not None else None
    failed = FailedLogins(settings.door_limits.failed_logins, clock)
    return Identity(
        static=StaticKeys(settings.key, tiers),
        stored=StoredKeys(ApiKeys(reader), clock, tiers, settings.identity, failed),
        tokens=Tokens(settings.jwt, verifier.keys, {"default": TOP_TIER, **tiers})
        if settings.jwt is not None and verifier is not None
        else None,
        revoked_tokens=RevokedTokens(RevokedTokenRows(reader), clock, settings.identity.reread_s),
        verifier=verifier,
        tickets=tickets,
        failed=failed,
        clock=clock,
    )


class Verifier:
    """What tokens are checked with, from where the settings say it is."""

    def __init__(self, settings: JwtSettings, clock: Clock, config: Path | None) -> None:
        """Raises StartupError."""
        self._client: httpx2.AsyncClient | None = None
        self._set: KeySet | None = None
        self._at_start = settings.jwks_url is None
        self.keys: VerifyingKeys
        if settings.jwks_file is not None:
            path = (config.parent if config is not None else Path()) / settings.jwks_file.expanduser()
            self.keys = self._set = KeySet(settings.algorithm, file_reader(path), clock, _FILE_CACHE_S)
        elif settings.jwks_url is not None:
            self._client = httpx2.AsyncClient(timeout=None, follow_redirects=False)
            read = url_reader(self._client, settings.jwks_url)
            self.keys = self._set = KeySet(settings.algorithm, read, clock, settings.jwks_cache_s)
        else:
            self.keys = Secret(_secret(settings))

    async def start(self) -> None:
        """A file has to be right at the start; an address may be away then. Raises StartupError."""
        if self._set is not None and self._at_start:
            await self._set.load()

    async def examine(self) -> str:
        """What there is, in words. Raises StartupError."""
        return f"{await self._set.load()} keys" if self._set is not None else "a secret"

    async def aclose(self) -> None:
        if self._set is not None:
            await self._set.aclose()
        if self._client is not None:
            await self._client.aclose()


def _secret(settings: JwtSettings) -> bytes:
    if settings.secret is not None:
        return settings.secret.get_secret_value().encode()
    name = settings.secret_env or ""
    secret = os.environ.get(name, "").encode()
    if len(secret) < MIN_SECRET_BYTES:
        state = f"is shorter than {MIN_SECRET_BYTES} bytes" if secret else "is not set"
        raise StartupError(f"jwt.secret_env names the environment variable {name}, which {state}")
    return secret
