"""Tickets: what a page, whose sockets cannot send headers, gets for its key and shows once in a URL.

A ticket is kept on the bus under its digest, so that any node takes it, and marked there when it is used.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict

import orjson

from antiphon.core.principal import Principal
from antiphon.errors import Unauthorized
from antiphon.governance.identity.static_keys import digest
from antiphon.ports import Bus, Clock

_PREFIX = "tk_"
_BYTES = 24
_LENGTH = len(_PREFIX) + _BYTES * 4 // 3
_NOBODY = b"null"


class Tickets:
    """Single use, and for pages of one origin."""

    def __init__(self, bus: Bus, clock: Clock, lifetime_s: float) -> None:
        self._bus = bus
        self._clock = clock
        self._lifetime_s = lifetime_s

    async def issue(self, principal: Principal, origin: str | None) -> tuple[str, float]:
        """A ticket, and the Unix time until which it counts. origin: None for clients that send none.

        Raises BusError.
        """
        ticket = _PREFIX + secrets.token_urlsafe(_BYTES)
        until = self._clock.now() + self._lifetime_s
        kept = orjson.dumps({"principal": asdict(principal), "origin": origin, "until": until})
        await self._bus.put_if_absent(_key(ticket, "holder"), kept, self._lifetime_s)
        return ticket, until

    async def redeem(self, ticket: str, origin: str | None) -> Principal:
        """Raises Unauthorized, BusError."""
        if len(ticket) != _LENGTH or not ticket.startswith(_PREFIX):
            raise _refused()
        holder = _key(ticket, "holder")
        kept = await self._bus.put_if_absent(holder, _NOBODY, 1.0)
        if kept is None or kept == _NOBODY:
            raise _refused()
        # Whoever tries it uses it up, with whatever origin: it has got to somebody it is not for.
        used = await self._bus.put_if_absent(_key(ticket, "used"), b"1", self._lifetime_s)
        found = orjson.loads(kept)
        if used is not None or found["origin"] != origin or self._clock.now() >= found["until"]:
            raise _refused()
        return Principal(**found["principal"])


def _key(ticket: str, what: str) -> str:
    return f"antiphon:v1:ticket:{{{digest(ticket)}}}:{what}"


def _refused() -> Unauthorized:
    return Unauthorized("This ticket is unknown, used, too old or for another page.", code="invalid_ticket")
