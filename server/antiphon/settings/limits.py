"""Tables of bounds and of waits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from antiphon.settings.storage import MIB
from antiphon.settings.table import Table


class LimitSettings(Table):
    """Bounds that protect everybody from one client. Each refusal names its limit."""

    max_message_bytes: int = Field(64 * MIB, gt=0)
    max_body_bytes: int = Field(64 * MIB, gt=0)
    json_depth: int = Field(128, gt=0, description="Nesting of arrays and objects in what clients send.")
    running_per_connection: int = Field(16, gt=0)
    named_lanes: int = Field(32, gt=0)
    queued_per_connection: int = Field(1024, gt=0, description="Creates that wait for their turn.")
    attachments_per_connection: int = Field(256, gt=0)
    feeds_per_connection: int = Field(16, gt=0, description="Tenants a connection may watch the runs of.")
    bad_frames_per_minute: int = Field(20, gt=0)
    outbox_bytes: int = Field(
        1 * MIB, gt=0, description="Unsent bytes of a connection before attachments are parked."
    )
    upstream_event_bytes: int = Field(16 * MIB, gt=0, description="Largest single event read from an upstream.")
    private_input_urls: Literal["refuse", "allow"] | None = Field(
        None,
        description="URLs of images and files in inputs that lead to this network: an upstream in it would fetch "
        "them. Absent: refused where authentication is required.",
    )


class TimeoutSettings(Table):
    """Every wait has an end."""

    keepalive_s: float = Field(15, gt=0, description="Silence on a running lane before a keepalive frame.")
    ping_interval_s: float = Field(20, gt=0)
    ping_timeout_s: float = Field(20, gt=0)
    connection_age_s: float = Field(3600, gt=0)
    connection_grace_s: float = Field(60, ge=0, description="For running turns after the connection's age.")
    stalled_socket_s: float = Field(15, gt=0, description="A socket that takes no byte for this long is closed.")
    http_abandon_s: float = Field(
        60,
        ge=0,
        description="A plain HTTP run nobody listens to is cancelled after it, unless it holds its calls.",
    )
    drain_pause_s: float = Field(
        0, ge=0, description="From failing readiness to refusing work, for load balancers."
    )
    drain_s: float = Field(30, ge=0, description="What running turns get at shutdown.")
    upstream_connect_s: float = Field(10, gt=0)
    upstream_first_byte_s: float | None = Field(
        None, gt=0, description="From a call to the first byte of its answer; absent: as `upstream_idle_s`."
    )
    upstream_idle_s: float = Field(300, gt=0, description="Longest silence of an upstream in mid-answer.")
    claim_lease_s: float = Field(30, gt=0, description="How long a claim of a held call lasts unless renewed.")
