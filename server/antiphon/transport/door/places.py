"""How many sockets are open, by client address, principal and tenant. Counted per node.

A place is taken when an upgrade is looked at and given back when its socket is over, however it ends, so that
the counts are those of sockets that are really there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.core.principal import Principal
from antiphon.core.slots import Slots
from antiphon.core.token_bucket import Buckets
from antiphon.errors import RequestError
from antiphon.ports import Clock
from antiphon.session.rates import too_fast
from antiphon.settings.door import DoorLimits
from antiphon.settings.tenants import TenantSettings


class Places:
    """The counts of this node."""

    def __init__(self, limits: DoorLimits, tenants: Sequence[TenantSettings], clock: Clock) -> None:
        self._limits = limits
        self._tenant_limits: Mapping[str, int | None] = {tenant.id: tenant.sockets for tenant in tenants}
        self._clock = clock
        self._accepts = Buckets(limits.accepts) if limits.accepts is not None else None
        self._addresses, self._principals, self._tenants = Slots(), Slots(), Slots()

    def __len__(self) -> int:
        """Keys of any kind that hold a place; 0 where no socket is open."""
        return len(self._addresses) + len(self._principals) + len(self._tenants)

    def enter(self, address: str) -> Place:
        """A place for an upgrade. Raises RequestError `rate_limited` or `too_many_connections`."""
        if self._accepts is not None:
            wait_s = self._accepts.take(address, self._clock.monotonic())
            if wait_s:
                raise too_fast(wait_s)
        place = Place()
        place.take(self._addresses, address, self._limits.sockets_per_address, "address")
        place.on_admit = self._admit
        return place

    def _admit(self, place: Place, principal: Principal) -> None:
        account = f"{principal.tenant}/{principal.id}"
        place.take(self._principals, account, self._limits.sockets_per_principal, "principal")
        place.take(self._tenants, principal.tenant, self._tenant_limits.get(principal.tenant), "tenant")


class Place:
    """What one socket holds of the counts."""

    def __init__(self) -> None:
        self._held: list[tuple[Slots, str]] = []
        self._left = False
        self.on_admit = _nobody

    def admit(self, principal: Principal) -> None:
        """The socket is authenticated: it counts for its principal and tenant, too, and does so once.

        Raises RequestError `too_many_connections`.
        """
        on_admit, self.on_admit = self.on_admit, _nobody
        on_admit(self, principal)

    def take(self, slots: Slots, key: str, limit: int | None, what: str) -> None:
        """Hold one more. After `leave` nothing is taken: nobody would give it back."""
        if self._left:
            return
        if not slots.take(key, limit):
            raise RequestError(
                f"This {what} already has {limit} open sockets, which is all it may have.",
                code="too_many_connections",
                headers={"x-should-retry": "false"},
            )
        self._held.append((slots, key))

    def leave(self) -> None:
        """The socket is over; all is given back, once."""
        self._left = True
        held, self._held = self._held, []
        for slots, key in held:
            slots.free(key)


def _nobody(place: Place, principal: Principal) -> None:
    """A socket that was admitted before: it is the same principal again."""
