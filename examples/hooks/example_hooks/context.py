"""Context: what the server knows about who asks is put before the instructions, for the model alone.

The notebook is a JSON file: {"<tenant>": {"user:ann": "Likes short answers.", "*": "Prices are in francs."}}
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path


class Notebook:
    """path: of the notebook."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def get_context_for_run(self, *, tenant: str, principal: str, **run: str) -> str | None:
        """What is noted about the caller. If it is nothing, the server asks `get_context`."""
        return (await self._notes(tenant)).get(principal)

    async def get_context(self, *, agent: str, tenant: str) -> str | None:
        """What is noted about everybody of the tenant."""
        return (await self._notes(tenant)).get("*")

    async def _notes(self, tenant: str) -> dict[str, str]:
        # The event loop serves everybody: what blocks goes into a thread.
        text = await asyncio.to_thread(self._path.read_text)
        notes: dict[str, str] = json.loads(text).get(tenant, {})
        return notes
