"""Every key and channel we use in Redis. What stands in braces decides the shard: keys used together share it."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "antiphon:v1"

NODES = f"{PREFIX}:nodes"
"""Set: ids of registered nodes, dead ones included until somebody has taken over their runs."""
CLUSTER = f"{PREFIX}:cluster"
"""Hash: the settings in which all nodes must agree."""
RELEASED = f"{PREFIX}:released"
"""Set: ids of runs that were handed over and that nobody has taken yet."""
ENDED = f"{PREFIX}:ended"
"""Sorted set: ids of ended runs whose logs are to be moved to the store, by the time of their end in ms."""

FEEDS = f"{PREFIX}:feeds"
"""Sorted set: the tenants that have a feed, by when a node last said so in ms."""


def run_meta(run_id: str) -> str:
    """Hash: owner, fence, head and state of a run."""
    return f"{PREFIX}:run:{{{run_id}}}:meta"


def run_log(run_id: str) -> str:
    """Stream: the events of a run."""
    return f"{PREFIX}:run:{{{run_id}}}:log"


def run_hint(run_id: str) -> str:
    """Channel: something is new in the log of a run."""
    return f"{PREFIX}:run:{{{run_id}}}:hint"


def node_lease(node: str) -> str:
    """String that runs out: the node lives while it is there."""
    return f"{PREFIX}:node:{{{node}}}:lease"


def node_inbox(node: str) -> str:
    """Stream: messages to a node."""
    return f"{PREFIX}:node:{{{node}}}:inbox"


def node_runs(node: str) -> str:
    """Set: ids of the runs a node owns."""
    return f"{PREFIX}:node:{{{node}}}:runs"


def lifecycle_channel(tenant: str) -> str:
    """Public channel: what happens to the runs of a tenant, for anybody's SUBSCRIBE."""
    return f"{PREFIX}:{tenant}:lifecycle"


def progress_channel(tenant: str) -> str:
    """Public channel: how far the runs of a tenant have come."""
    return f"{PREFIX}:{tenant}:progress"


def feed(tenant: str) -> str:
    """Public stream: the same, for filling gaps."""
    return f"{PREFIX}:{tenant}:feed"


def feed_part(tenant: str, name: str) -> str:
    """A key of ours on the shard of the feed: its hash tag is the feed's whole name."""
    return f"{{{feed(tenant)}}}:{name}"


def admission(tenant: str, name: str) -> str:
    """A key of what a tenant uses: its counters, its runs, its reservations. All of them on one shard."""
    return f"{PREFIX}:admission:{{{quote(tenant, safe=':@')}}}:{name}"


def is_tagged(channel: str) -> bool:
    """Whether a channel belongs to a shard; the public ones, without a tag, are for everybody everywhere."""
    opening = channel.find("{")
    return 0 <= opening < channel.find("}", opening) - 1
