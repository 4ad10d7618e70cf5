"""Answering a held call as a client does that is told to come again."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.session.held import inject
from tests.support.ws_client import WsClient

COME_AGAIN = ("owner_unavailable", "storage_unavailable", "response_not_found")


async def until_taken(client: WsClient, run_id: str, item: dict[str, Any], wait_s: float = 40.0) -> None:
    """Inject until it is taken; whatever it is told meanwhile has to be an invitation to come again."""
    told: list[str] = []
    try:
        async with asyncio.timeout(wait_s):
            while (answer := await inject(client, run_id, item))["type"] != "response.inject.created":
                told.append(answer["error"]["code"])
                assert told[-1] in COME_AGAIN, answer.raw
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not taken within {wait_s} s, but told {told[-5:]}") from None
