"""Credentials to principals, from all that is configured; or everybody, when authentication is off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol

from antiphon.core.principal import LOCAL, Principal
from antiphon.errors import StartupError, Unauthorized
from antiphon.governance.identity.failed_logins import FailedLogins
from antiphon.governance.identity.revoked_tokens import RevokedTokens
from antiphon.governance.identity.static_keys import StaticKeys, digest
from antiphon.governance.identity.stored_keys import KEY_PREFIX, StoredKeys
from antiphon.governance.identity.tickets import Tickets
from antiphon.governance.identity.tokens import Tokens, is_token
from antiphon.governance.identity.watching import Watches
from antiphon.ports import Clock, Credentials

_STORED, _SIGNED = "key_", "jwt:"
"""How credentials begin that are stored keys, and that are signed tokens."""

OnOver = Callable[[Literal["expired", "revoked"]], None]


class Opened(Protocol):
    """What is opened at the start and closed at the end."""

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...


class NoAuthentication:
    """Authentication is off: whoever can reach the address is the local user. Credentials sent are ignored."""

    required = False

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets

    async def start(self) -> None:
        """There is nothing to read."""

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    async def authenticate(self, credentials: Credentials) -> Principal:
        return LOCAL

    def check(self, principal: Principal) -> None:
        """It counts for ever."""

    def watch(self, principal: Principal, on_over: OnOver) -> Callable[[], None]:
        return _nothing

    async def issue_ticket(self, principal: Principal, origin: str | None) -> tuple[str, float]:
        return await self._tickets.issue(principal, origin)


class Identity:
    """Authentication is required. Keys of the configuration, stored keys, signed tokens, tickets."""

    required = True

    def __init__(
        self,
        *,
        static: StaticKeys,
        stored: StoredKeys,
        tokens: Tokens | None,
        revoked_tokens: RevokedTokens,
        tickets: Tickets,
        failed: FailedLogins,
        clock: Clock,
        verifier: Opened | None,
    ) -> None:
        """verifier: what the tokens are checked with."""
        self._static = static
        self._stored = stored
        self._tokens = tokens
        self._revoked_tokens = revoked_tokens
        self._tickets = tickets
        self._failed = failed
        self._clock = clock
        self._watches = Watches(clock)
        self._verifier = verifier
        stored.on_revoked = self._watches.revoked
        revoked_tokens.on_revoked = lambda: self._watches.look_again(self._is_revoked)

    async def start(self) -> None:
        """The store is open. Raises StartupError if nobody could be let in, StorageError."""
        if self._verifier is not None:
            await self._verifier.start()
        if not len(self._static) and self._tokens is None and not await self._stored.any_active():
            raise StartupError(
                "authentication is required, but nobody could be let in: make a key with `antiphon keys create`, "
                "or configure a [[key]] or [jwt]; without any of them only 127.0.0.1 can be served"
            )
        await self._stored.start()
        if self._tokens is not None:
            await self._revoked_tokens.start()

    async def aclose(self) -> None:
        await self._stored.aclose()
        await self._revoked_tokens.aclose()
        if self._verifier is not None:
            await self._verifier.aclose()

    async def authenticate(self, credentials: Credentials) -> Principal:
        """See `ports.Authenticator`."""
        if credentials.bearer is None and credentials.ticket is None:
            raise Unauthorized(
                "Send your key as `Authorization: Bearer <key>`.",
                code="authentication_required",
                headers={"www-authenticate": "Bearer"},
            )
        try:
            principal = await self._whose(credentials)
        except Unauthorized as error:
            if error.code != "token_expired":  # that was a good one, and its holder has to hear it
                self._failed.count(credentials.address)
            raise
        self.check(principal)
        return principal

    def check(self, principal: Principal) -> None:
        if principal.expires_at is not None and self._clock.now() >= principal.expires_at:
            raise Unauthorized(
                "What you showed has run out; get a new one.",
                code="token_expired",
                headers={"www-authenticate": 'Bearer error="invalid_token"'},
            )
        if principal.credential.startswith(_STORED):
            self._stored.check(principal.credential)
        if principal.credential.startswith(_SIGNED):
            self._revoked_tokens.check(principal)

    def watch(self, principal: Principal, on_over: OnOver) -> Callable[[], None]:
        end = self._watches.add(principal, on_over)
        if self._is_revoked(principal):  # since it was checked
            asyncio.get_running_loop().call_soon(self._watches.revoked, {principal.credential})
        return end

    async def issue_ticket(self, principal: Principal, origin: str | None) -> tuple[str, float]:
        return await self._tickets.issue(principal, origin)

    def _is_revoked(self, principal: Principal) -> bool:
        return self._stored.is_revoked(principal.credential) or (
            principal.credential.startswith(_SIGNED) and self._revoked_tokens.is_revoked(principal)
        )

    async def _whose(self, credentials: Credentials) -> Principal:
        if credentials.bearer is not None:
            return await self._of_bearer(credentials.bearer, credentials.address)
        return await self._tickets.redeem(credentials.ticket or "", credentials.origin)

    async def _of_bearer(self, bearer: str, address: str) -> Principal:
        sha256 = digest(bearer)
        principal = self._static.find(sha256)
        if principal is None and self._tokens is not None and is_token(bearer):
            return await self._tokens.read(bearer)
        if principal is None and bearer.startswith(KEY_PREFIX):  # anything else costs no look into the store
            principal = await self._stored.find(sha256, address)
        if principal is None:
            raise Unauthorized("This key is not known here.", headers={"www-authenticate": "Bearer"})
        return principal


def _nothing() -> None:
    """No watch was begun."""
