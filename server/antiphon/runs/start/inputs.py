"""A client's input made complete: what it only names or seals is looked up, opened and put in its place."""

from __future__ import annotations

from typing import Any

from antiphon.core import context
from antiphon.core.compaction import expand, last_compaction
from antiphon.core.context import Known, Owned
from antiphon.core.history import Turn
from antiphon.core.principal import Principal
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.directory import RunDirectory


class InputReader:
    """Turns the items of a create into those that the model reads."""

    def __init__(self, directory: RunDirectory, sealer: Sealer) -> None:
        self._directory = directory
        self._sealer = sealer

    async def read(
        self, items: list[dict[str, Any]], parent: Turn | None, principal: Principal, owned: Owned
    ) -> list[dict[str, Any]]:
        """The items with references resolved, compacted histories opened, and our own echoes turned back.

        Items that need no change stay the same objects. Raises RequestError `item_not_found`,
        `invalid_compaction`, StorageError.
        """
        wanted = context.references(items)
        known: dict[str, Known] = {}
        if wanted:
            known = await self._directory.items(wanted, principal, whole=True)
            chain = {turn.response_id for turn in parent.read_by_model()} if parent else set[str]()
            items = context.resolve(items, known, chain)
        newest = last_compaction(items)
        if newest is not None:
            sealed = items[newest]["encrypted_content"]
            opened = self._sealer.open(sealed, principal.tenant, f"input[{newest}]")
            items = expand(items, newest, opened)
        echoed = context.echoed_ids(items) - known.keys()
        if echoed:
            known |= await self._directory.items(echoed, principal, whole=False)
        return context.for_upstream(items, known, owned)
