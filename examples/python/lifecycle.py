"""What happens to all runs of a cluster, from Redis alone: a dashboard's first hundred lines. In a terminal:

    pip install redis
    python examples/python/lifecycle.py

It subscribes to the channel of a tenant, and misses nothing: what is published while the connection is away is
read from the stream (protocol/PROTOCOL.md, section 16). Only servers with ANTIPHON_BUS_URL set publish there.

REDIS_URL points elsewhere than redis://127.0.0.1:6379, ANTIPHON_TENANT names another tenant than `default`.
"""

import json
import os
import time

import redis

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
tenant = os.environ.get("ANTIPHON_TENANT", "default")
CHANNEL, STREAM = f"antiphon:v1:{tenant}:lifecycle", f"antiphon:v1:{tenant}:feed"
LOOK_S = 2.0  # how often the stream is read although nobody rang


class Feed:
    """Where this reader is in the feed: an epoch, and the rev of the newest entry it has shown."""

    def __init__(self):
        self.epoch, self.rev = None, 0

    def show(self, entry):
        """Print an entry that is the next one."""
        self.epoch, self.rev = entry["epoch"], entry["rev"]
        run = entry["run"]
        print(f"{self.rev:>6} {run['response_id']} {entry['event']:<18} {run['state']}", flush=True)

    def heard(self, entry):
        """An entry was published: show it if it is the next one, else look what is missing."""
        if entry["epoch"] == self.epoch and entry["rev"] == self.rev + 1:
            self.show(entry)
        elif entry["epoch"] != self.epoch or entry["rev"] > self.rev:
            self.catch_up()

    def catch_up(self):
        """Show what the stream has after this position."""
        while found := client.xrange(STREAM, min=f"{self.rev + 1}-0", count=1000) or self.newer_epoch():
            for entry in (json.loads(fields[b"entry"]) for _, fields in found):
                if entry["epoch"] != self.epoch and self.rev:
                    print("--- the feed began anew ---", flush=True)
                    self.epoch, self.rev = None, 0
                    break  # read it from its first entry
                if entry["rev"] != self.rev + 1 and self.rev:
                    print(f"--- {entry['rev'] - self.rev - 1} entries are gone for good ---", flush=True)
                self.show(entry)

    def newer_epoch(self):
        """The newest entry, if it is not of this reader's epoch."""
        newest = client.xrevrange(STREAM, count=1)
        return [entry for entry in newest if json.loads(entry[1][b"entry"])["epoch"] != self.epoch]


def listen(feed):
    """Until the connection is lost."""
    with client.pubsub() as subscription:
        subscription.subscribe(CHANNEL)
        while True:
            message = subscription.get_message(timeout=LOOK_S)
            if message is not None and message["type"] == "message":
                feed.heard(json.loads(message["data"]))
            else:  # subscribed, or nothing was heard for a while
                feed.catch_up()


feed = Feed()
while True:
    try:
        listen(feed)
    except (redis.ConnectionError, redis.TimeoutError) as error:
        print(f"--- the connection is gone: {error} ---", flush=True)
        time.sleep(0.5)
