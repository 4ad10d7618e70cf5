"""A server of its own process that can be killed, with tools and a scripted upstream."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.playing import LOOK, MODEL, says
from tests.http.calling import until
from tests.session.play import numbered, reference
from tests.support.server import ServerProcess
from tests.support.stub_upstream import StubUpstream, in_turn, play
from tests.support.ws_client import Event, WsClient

ROOT = Path(__file__).parents[2]
DONE = says(("text", "done"))
HOLD = {"tools": [LOOK], "antiphon": {"client_tools": "hold"}}
MODES = pytest.mark.parametrize("mode", ["relaxed", "strict"])

CONFIG = """
[journal]
mode = "{mode}"
[timeouts]
drain_s = 5
[tools]
list_timeout_s = 1
mcp_allowed_hosts = ["nowhere.invalid"]
[[upstream]]
name = "stub"
url = "{url}"
models = ["stub-model"]
caller_key = true
[[tool]]
name = "note"
kind = "python"
entry = "tests.contract.own_tools:note"
always = true
parameters = {{ type = "object" }}
"""


@dataclass
class Stage:
    """A server that can be killed, in front of a scripted upstream. notes: what its tool wrote."""

    stub: StubUpstream
    server: ServerProcess
    notes: Path

    @property
    def calls(self) -> int:
        """How often the tool was called, over all processes."""
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0

    async def restart(self) -> None:
        await self.server.kill()
        await self.server.start()

    async def begin(self, client: WsClient, **fields: Any) -> Event:
        """Create a run; its `response.created`."""
        await client.create(MODEL, input="go", **fields)
        return await client.recv_on()

    def row(self, run_id: str, column: str) -> Any:
        with contextlib.closing(sqlite3.connect(self.server.data_dir / "antiphon.db")) as connection:
            query = f"SELECT {column} FROM responses LEFT JOIN checkpoints ON id = run_id WHERE id = ?"
            found = connection.execute(query, (run_id,)).fetchone()
            return found[0] if found is not None else None

    async def kept(self, run_id: str, **wanted: Any) -> None:
        """Wait for a checkpoint that says this."""

        def there() -> bool:
            payload = self.row(run_id, "payload")
            return payload is not None and wanted.items() <= json.loads(payload).items()

        await until(there)


@contextlib.asynccontextmanager
async def stage(folder: Path, *answers: Any, mode: str = "relaxed") -> AsyncIterator[Stage]:
    handlers = [one if callable(one) else play(one) for one in answers]
    async with StubUpstream(in_turn(*handlers)) as stub:
        (folder / "antiphon.toml").write_text(CONFIG.format(mode=mode, url=stub.url))
        env = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        async with ServerProcess(folder, env) as server:
            yield Stage(stub, server, folder / "notes")


async def whole(s: Stage, run_id: str) -> list[Event]:
    """The log from its start to its end."""
    return await reference(s.server.ws_url, run_id)


async def state_of(client: WsClient, run_id: str, **fields: Any) -> dict[str, Any]:
    """What the run's state says, as soon as the server has taken it up."""

    async def look() -> bool:
        attached = await client.command("antiphon:attach", response_id=run_id, after="now", stream_id="look")
        found.append(attached)
        await client.command("antiphon:detach", response_id=run_id)
        return bool(attached["state"]["state"] == "waiting_for_tool")

    found: list[Event] = []
    await until(look)
    return {"epoch": found[-1]["epoch"], **found[-1]["state"]}


def shown(client: WsClient) -> list[Event]:
    return [event for event in numbered(client.received) if "sequence_number" in event]
