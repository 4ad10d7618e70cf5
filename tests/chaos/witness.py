"""A client of a node that is cut off or asleep."""

from __future__ import annotations

from tests.http.calling import until
from tests.session.play import numbered
from tests.support.follower import without_lane
from tests.support.ws_client import Event, WsClient


class Witness:
    """What it is shown from the waking on must be the log that the others have."""

    def __init__(self, client: WsClient, run_id: str, lane: str) -> None:
        self._client = client
        self._run_id = run_id
        self._lane = lane
        self._before = 0

    @classmethod
    async def on(cls, client: WsClient, run_id: str) -> Witness:
        await client.hello()
        return cls(client, run_id, (await client.attach(run_id))["stream_id"])

    def asleep(self) -> None:
        """Its node is stopped: what comes later was sent after the waking."""
        self._before = len(self._client.received)

    async def told(self) -> str:
        """Wait until it is detached or its socket is closed: the reason, or `closed`."""

        def over() -> bool:
            return self._client._ended.is_set() or any(
                frame["type"] == "antiphon:detached" and frame["stream_id"] == self._lane
                for frame in self._client.received
            )

        await until(over)
        ends = [frame for frame in self._client.received if frame["type"] == "antiphon:detached"]
        return str(ends[-1]["reason"]) if ends else "closed"

    def check(self, log: list[Event]) -> None:
        """What the woken node still sent of this run is what the run's owner wrote."""
        true = {event["sequence_number"]: without_lane(event) for event in log}
        late = [frame for frame in self._client.received[self._before :] if frame.get("stream_id") == self._lane]
        for event in numbered(late):
            if "sequence_number" in event and not event["type"].startswith("response.inject."):
                assert without_lane(event) == true.get(event["sequence_number"]), (
                    f"said by the woken node: {event}"
                )
