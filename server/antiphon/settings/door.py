"""Settings of the door: who may come in, how fast, how many, and how long they may take over it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from antiphon.core.token_bucket import Rate

_KIB = 1024

_SOCKETS = 1000
_ACCEPTS = Rate(per_s=100, burst=500)
_FAILED_LOGINS = Rate(per_s=5, burst=100)
_CREATES = Rate(per_s=100, burst=200)


_ORIGIN = re.compile(r"(https?)://((?:\[[0-9a-f:]+\]|[a-z0-9._-]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def _as_browsers_send_it(given: str) -> str:
    """An origin in the one form it has in the header. Raises ValueError."""
    parts = _ORIGIN.fullmatch(given)
    if parts is None:
        raise ValueError(
            f"{given[:80]!r} is no origin; write https://name or https://name:port, without path or pattern"
        )
    scheme, name, port = parts[1].lower(), parts[2].lower(), parts[3]
    return f"{scheme}://{name}" if port in (None, _DEFAULT_PORTS[scheme]) else f"{scheme}://{name}:{port}"


def _network(given: str) -> str:
    try:
        return str(ipaddress.ip_network(given))
    except ValueError:
        raise ValueError(f"{given[:80]!r} is neither an address nor a network such as 10.0.0.0/8") from None


WebOrigins = tuple[Annotated[str, AfterValidator(_as_browsers_send_it)], ...]
Networks = tuple[Annotated[str, AfterValidator(_network)], ...]


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """What is in force. None: no limit."""

    sockets_per_principal: int | None
    sockets_per_address: int | None
    accepts: Rate | None
    creates: Rate | None
    creates_per_connection: Rate | None
    failed_logins: Rate | None


class DoorSettings(BaseModel):
    """Protects the server from those it serves and from those it does not.

    Each node counts for itself: with several nodes the total is up to as many times higher. A limit that is absent
    is the default named with it where authentication is required, and none where it is off.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sockets_per_principal: int | None = Field(None, gt=0, description="Open sockets; absent: 1000.")
    sockets_per_address: int | None = Field(
        None, gt=0, description="Open sockets of one client address (IPv6: of one /64 network); absent: 1000."
    )
    accepts_per_s: float | None = Field(
        None, gt=0, description="Upgrades of one client address in a second; absent: 100."
    )
    accept_burst: float | None = Field(None, ge=1, description="Upgrades at once after a rest; absent: 500.")
    creates_per_s: float | None = Field(
        None,
        gt=0,
        description="Creates of one principal in a second; other commands count for a tenth to a half of one. "
        "Absent: 100.",
    )
    create_burst: float | None = Field(None, ge=1, description="Creates at once after a rest; absent: 200.")
    connection_creates_per_s: float | None = Field(
        None, gt=0, description="The same for one socket; absent: as for its principal."
    )
    connection_create_burst: float | None = Field(
        None, ge=1, description="The same for one socket; absent: as for its principal."
    )
    failed_logins_per_s: float | None = Field(
        None, gt=0, description="Wrong credentials of one client address in a second; absent: 5."
    )
    failed_login_burst: float | None = Field(
        None, ge=1, description="Wrong credentials at once after a rest; absent: 100."
    )
    head_bytes: int = Field(
        64 * _KIB, ge=_KIB, description="Request line and headers of a request or upgrade together."
    )
    head_s: float = Field(
        10, gt=0, description="From a connection, or the first byte of a request, to its headers."
    )
    body_idle_s: float = Field(30, gt=0, description="Longest silence in the middle of a request's body.")
    message_s: float = Field(
        60, gt=0, description="From the first to the last byte of a message on a socket, pieces included."
    )

    def in_force(self, *, auth_required: bool) -> DoorLimits:
        """The limits, with the defaults where authentication is required."""
        creates = _rate(self.creates_per_s, self.create_burst, _CREATES, auth_required)
        of_one = _rate(
            self.connection_creates_per_s, self.connection_create_burst, creates or _CREATES, creates is not None
        )
        return DoorLimits(
            sockets_per_principal=self.sockets_per_principal or (_SOCKETS if auth_required else None),
            sockets_per_address=self.sockets_per_address or (_SOCKETS if auth_required else None),
            accepts=_rate(self.accepts_per_s, self.accept_burst, _ACCEPTS, auth_required),
            creates=creates,
            creates_per_connection=of_one,
            failed_logins=_rate(self.failed_logins_per_s, self.failed_login_burst, _FAILED_LOGINS, auth_required),
        )


def _rate(per_s: float | None, burst: float | None, default: Rate, on: bool) -> Rate | None:
    """One of both given is enough to have a limit; the other is the default's then."""
    if per_s is None and burst is None:
        return default if on else None
    return Rate(per_s=per_s or default.per_s, burst=burst or default.burst)
