"""Who is at the other end of a connection: a principal whose credential is looked at each time it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ports import Authenticator, Clock, Credentials

Over = Literal["expired", "revoked"]


class Caller:
    """on_expiring: told so many seconds before the credential runs out. on_over: told once that it counts no more.

    Both may be set until the first is due; `principal` changes with `refresh`.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        principal: Principal,
        clock: Clock,
        *,
        notice_s: float,
        origin: str | None = None,
        address: str = "",
    ) -> None:
        """origin: of the page whose socket it is. address: of the client."""
        self._origin = origin
        self._address = address
        self._authenticator = authenticator
        self._clock = clock
        self._notice_s = notice_s
        self._expiring: asyncio.TimerHandle | None = None
        self.principal = principal
        self.on_expiring: Callable[[float], None] = lambda left_s: None
        self.on_over: Callable[[Over], None] = lambda why: None
        self._end_watch = self._watch()

    def check(self) -> Principal:
        """The principal, if it still may act. Raises Unauthorized, AntiphonError `identity_unavailable`."""
        self._authenticator.check(self.principal)
        return self.principal

    async def refresh(self, *, token: str | None, ticket: str | None = None) -> Principal:
        """Go on with newer credentials of the same caller. They never give it more than it had.

        Raises what `Authenticator.authenticate` does; RequestError `forbidden` for somebody else's.
        """
        given = await self._authenticator.authenticate(Credentials(token, ticket, self._origin, self._address))
        if not self._authenticator.required:
            return self.principal
        if not given.is_same_as(self.principal):
            raise RequestError(
                "These credentials are of another caller or tenant; open a connection of its own for it.",
                code="forbidden",
            )
        self.close()
        self.principal = given.at_most(self.principal.role)
        self._end_watch = self._watch()
        return self.principal

    def remind(self) -> None:
        """Tell again what `on_expiring` told, if it is due: perhaps nobody could be told then."""
        if self.principal.expires_at is not None:
            left_s = self.principal.expires_at - self._clock.now()
            if left_s <= self._notice_s:
                self.on_expiring(left_s)

    def close(self) -> None:
        """Nobody is to be told any more."""
        self._end_watch()
        if self._expiring is not None:
            self._expiring.cancel()
            self._expiring = None

    def _watch(self) -> Callable[[], None]:
        if self.principal.expires_at is not None:
            left_s = self.principal.expires_at - self._clock.now()
            self._expiring = asyncio.get_running_loop().call_later(
                max(left_s - self._notice_s, 0.0), lambda: self.on_expiring(min(left_s, self._notice_s))
            )
        return self._authenticator.watch(self.principal, lambda why: self.on_over(why))
