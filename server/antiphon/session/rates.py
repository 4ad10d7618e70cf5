"""How fast callers may send commands, over sockets and HTTP alike (PROTOCOL 3.5). Counted per node."""

from __future__ import annotations

import itertools
import math

from antiphon.core.command_weights import request_weight, weight
from antiphon.core.principal import Principal
from antiphon.core.token_bucket import Buckets, Rate
from antiphon.errors import RequestError
from antiphon.ports import Clock
from antiphon.settings.door import DoorLimits

_REFUSALS = Rate(per_s=1, burst=100)
"""A socket whose commands are refused oftener than this is not slowing down: it is closed."""


class Rates:
    """The buckets of all principals and connections of this node."""

    def __init__(self, limits: DoorLimits, clock: Clock) -> None:
        self._clock = clock
        self._principals = Buckets(limits.creates) if limits.creates else None
        self._connections = Buckets(limits.creates_per_connection) if limits.creates_per_connection else None
        self._refusals = Buckets(_REFUSALS)
        self._numbers = itertools.count()

    def socket(self, principal: Principal) -> Pace | None:
        """The pace of a new connection; None where nothing is limited."""
        if self._principals is None and self._connections is None:
            return None
        return Pace(self, _account(principal), f"socket {next(self._numbers)}")

    def request(self, principal: Principal, method: str, path: str) -> None:
        """Count a request over HTTP. Raises RequestError `rate_limited`."""
        wait_s = self.take(_account(principal), None, request_weight(method, path))
        if wait_s:
            raise too_fast(wait_s)

    def take(self, account: str, connection: str | None, cost: float) -> float:
        """0, or how many seconds to wait. Where one bucket refuses, nothing is taken of the other one."""
        now = self._clock.monotonic()
        wait_s = 0.0
        if self._connections is not None and connection is not None:
            wait_s = self._connections.wait_s(connection, now, cost)
        if self._principals is not None:
            wait_s = max(wait_s, self._principals.wait_s(account, now, cost))
        if wait_s == 0.0:
            if self._connections is not None and connection is not None:
                self._connections.take(connection, now, cost)
            if self._principals is not None:
                self._principals.take(account, now, cost)
        return wait_s

    def refused(self, connection: str) -> bool:
        """Count a refusal; whether it was one too many."""
        return self._refusals.take(connection, self._clock.monotonic()) > 0


class Pace:
    """What one connection may still send."""

    def __init__(self, rates: Rates, account: str, connection: str) -> None:
        self._rates = rates
        self._account = account
        self._connection = connection

    def check(self, kind: str) -> None:
        """Count a command. Raises RequestError `rate_limited`."""
        wait_s = self._rates.take(self._account, self._connection, weight(kind))
        if wait_s:
            raise too_fast(wait_s)

    def gave_up(self) -> bool:
        """Count a refused command; whether the connection has to be closed, because it goes on all the same."""
        return self._rates.refused(self._connection)


def too_fast(wait_s: float) -> RequestError:
    """wait_s: after which the same would be taken."""
    return RequestError(
        "You are sending faster than this server takes it; wait and send this again.",
        code="rate_limited",
        headers={"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))},
    )


def _account(principal: Principal) -> str:
    return f"{principal.tenant}/{principal.id}"
