"""Tools that are always there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from antiphon.errors import ToolError
from antiphon.ports import Clock, ToolContext, ToolOutput, ToolSpec


class CurrentTime:
    """`current_time`: the server's clock, in any time zone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.spec = ToolSpec(
            name="current_time",
            description="The current date and time, in UTC or in a time zone of your choice.",
            parameters={
                "type": "object",
                "properties": {
                    "timezone": {"type": "string", "description": "IANA name, for example Europe/Berlin."}
                },
                "additionalProperties": False,
            },
            side_effects=False,
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Raises ToolError for a time zone nobody knows."""
        name = arguments.get("timezone") or "UTC"
        try:
            zone = UTC if name == "UTC" else ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:
            raise ToolError(
                f"There is no time zone {name[:100]!r}; use an IANA name such as Europe/Berlin."
            ) from error
        now = datetime.fromtimestamp(self._clock.now(), zone)
        fields = {"time": now.isoformat(timespec="seconds"), "weekday": f"{now:%A}", "timezone": name}
        return ToolOutput(orjson.dumps(fields).decode())
