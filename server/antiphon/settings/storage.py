"""Settings of what keeps runs: the logs, the store, the bus between nodes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from antiphon.settings.table import Table

MIB = 1024 * 1024


class JournalSettings(Table):
    """How the event log of a run is kept."""

    mode: Literal["relaxed", "strict"] = Field(
        "relaxed", description="`strict`: no event is shown before it survives a power cut."
    )
    retention_s: float = Field(86_400, ge=0, description="How long an ended run can be attached to.")
    flush_ms: float = Field(15, gt=0, le=1000, description="Longest time an event waits for the durable log.")
    tail_bytes: int = Field(
        8 * MIB, gt=0, description="Events of a stored run kept in memory; older ones are read back."
    )
    memory_run_bytes: int = Field(
        192 * MIB, gt=0, description="Log of one `store: false` run; beyond it the oldest events expire."
    )


class BusSettings(Table):
    """Several nodes over Redis. `lease_s` and what must agree is checked between nodes at start."""

    lease_s: float = Field(
        5,
        ge=0.5,
        le=60,
        description="How long a node counts as alive after it was last heard of; all nodes alike.",
    )
    flush_ms: float = Field(5, gt=0, le=1000, description="Longest time an event waits before it goes to Redis.")
    hint_bytes: int = Field(
        8 * 1024,
        ge=0,
        le=1024 * 1024,
        description="Events up to this size travel with the hint that announces them.",
    )
    live_log_bytes: int = Field(
        64 * MIB, gt=0, description="Log of one live run in Redis; older events of a stored run move to the store."
    )
    live_log_ttl_s: float = Field(
        86_400, gt=0, description="A run of which nothing was heard for this long is gone from Redis."
    )
    linger_s: float = Field(
        60, ge=0, description="How long the log of an ended run stays in Redis after it was moved."
    )
    command_timeout_s: float = Field(5, gt=0, description="How long Redis may take to answer.")
    connections: int = Field(16, ge=2, description="Connections for commands; subscriptions have their own.")


class StoreSettings(Table):
    """How results are kept."""

    retry_s: float = Field(60, ge=0, description="How long a terminal write is tried again before the run fails.")
    grace_s: float = Field(60, ge=0, description="How long a `store: false` run can be attached to after its end.")
    timeout_s: float = Field(10, gt=0, description="How long PostgreSQL may take over one statement.")
    connections: int = Field(8, ge=2, description="Connections to PostgreSQL that read; one more writes.")
