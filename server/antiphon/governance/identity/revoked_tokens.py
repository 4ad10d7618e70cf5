"""Which signed tokens were taken back: read again and again, as it is for keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from antiphon.bus.tasks import end_tasks
from antiphon.core.principal import Principal
from antiphon.errors import Unauthorized
from antiphon.governance.identity.rereading import read_forever
from antiphon.ports import Clock
from antiphon.store.revoked_tokens import tokens_of

_CLOCKS_DIFFER_S = 3_600.0
"""Revocations are dated by the machine on which they were made."""


class TokenRows(Protocol):
    """What was taken back."""

    async def since(self, at: float) -> Mapping[str, float]:
        """Raises StorageError."""
        ...


class RevokedTokens:
    """on_revoked: called when some were found to be revoked since they were last looked at.

    While the store is away tokens go on counting; what was revoked meanwhile is found when it is back.
    """

    def __init__(self, rows: TokenRows, clock: Clock, reread_s: float) -> None:
        self._rows = rows
        self._clock = clock
        self._reread_s = reread_s
        self._revoked: dict[str, float] = {}
        self._read_at = 0.0
        """Unix seconds, of the last time that it worked."""
        self._rereading: asyncio.Task[None] | None = None
        self.on_revoked: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Begin to hear of revocations. Raises StorageError."""
        await self.read()
        self._rereading = asyncio.create_task(
            read_forever(self.read, self._reread_s, "revoked_tokens_not_read"), name="revoked tokens"
        )

    async def aclose(self) -> None:
        await end_tasks([self._rereading])

    def is_revoked(self, principal: Principal) -> bool:
        """Whether its token was, by its id or with all that its caller had. One that does not say when it was
        issued is older than everything."""
        if principal.credential in self._revoked:
            return True
        until = self._revoked.get(tokens_of(principal.tenant, principal.id))
        return until is not None and (principal.issued_at is None or principal.issued_at <= until)

    def check(self, principal: Principal) -> None:
        """Raises Unauthorized."""
        if self._revoked and self.is_revoked(principal):
            challenge = 'Bearer error="invalid_token", error_description="it was revoked"'
            raise Unauthorized(
                "This token was revoked.", code="invalid_token", headers={"www-authenticate": challenge}
            )

    async def read(self) -> None:
        """Take over what was revoked since this last worked. Raises StorageError."""
        now = self._clock.now()
        found = await self._rows.since(self._read_at)
        self._read_at = now - _CLOCKS_DIFFER_S
        if not found.items() <= self._revoked.items():
            self._revoked.update(found)
            self.on_revoked()
