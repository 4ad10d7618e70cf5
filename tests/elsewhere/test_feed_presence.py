"""Who is attached, as dashboards see it: nobody stays who is gone, and a crowd costs little (O-05, O-07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.core.participants import Participant
from antiphon.core.principal import Principal
from antiphon.runs.elsewhere.messages import COMPANY
from tests.elsewhere.two_nodes import AUTH, two_nodes
from tests.feed.watching import watching
from tests.session.held import calling, hold
from tests.support.ws_client import ws_client

CROWD = 1000


def there_are(run: dict[str, Any]) -> int:
    return sum(row.get("count", 1) for row in run["participants"])


async def test_a_thousand_who_come_and_go_on_another_node_cost_few_messages(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes, watching(nodes.here, "viewer") as watch:
        async with ws_client(nodes.here.ws_url, api_key="anna") as anna:
            run = await hold(anna, calling(nodes.folder, 1))
            await watch.subscribe()
            engine = nodes.there.app.engine
            follower = await engine.directory.find(run.id, Principal("key:bob", "acme", "driver"))
            assert follower is not None
            messages, ask = 0, engine.bus.ask

            async def counted(node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
                nonlocal messages
                messages += kind == COMPANY
                return await ask(node, kind, payload, timeout_s)

            monkeypatch.setattr(engine.bus, "ask", counted)
            guests = [Participant(f"conn_{n}", f"user:{n}", "viewer") for n in range(CROWD)]
            for guest in guests:
                engine.company.joined(follower, guest)
                await asyncio.sleep(0.001)
            await watch.until(lambda seen: there_are(seen.rows[run.id]) == CROWD + 1)
            for guest in guests:
                engine.company.left(follower, guest.connection)
            seen = await watch.until(lambda seen: there_are(seen.rows[run.id]) == 1)
            assert messages <= CROWD
            assert seen.events_of(run.id).count("run.updated") <= CROWD // 2
