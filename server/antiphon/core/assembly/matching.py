"""Which item an upstream's event means, for upstreams whose indices and ids are missing, constant or wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES, OpenItem

_Rule = Callable[[int, dict[str, Any], OpenItem], bool]


class Items:
    """The items of one response. all: in our order. Indices and ids lead to the newest item that has them.

    An upstream's indices and ids mean something within one round only; first: where this round's items begin.
    """

    def __init__(self) -> None:
        self.all: list[OpenItem] = []
        self.first = 0
        self._newest: dict[int, OpenItem] = {}
        self._by_index: dict[tuple[str | None, int], OpenItem] = {}
        """By type and index; the type None stands for any."""
        self._by_id: dict[tuple[str | None, str], OpenItem] = {}

    @property
    def of_round(self) -> list[OpenItem]:
        return self.all[self.first :]

    def next_round(self) -> None:
        """Another model call begins: its indices and ids have nothing to do with those before."""
        self.first = len(self.all)
        for known in (self._newest, self._by_index, self._by_id):
            known.clear()

    def add(self, item: OpenItem) -> None:
        self.all.append(item)
        if item.upstream_index is not None:
            self._newest[item.upstream_index] = item
            self._by_index[None, item.upstream_index] = self._by_index[item.type, item.upstream_index] = item
        if item.upstream_id is not None:
            self._by_id[None, item.upstream_id] = self._by_id[item.type, item.upstream_id] = item

    def announced(self, item: OpenItem, given: dict[str, Any]) -> None:
        """The announcement of an item that clients know already from its first text."""
        item.implied = False
        item.upstream = {**given, **{key: v for key, v in item.upstream.items() if v is not None}}
        upstream_id = given.get("id")
        if item.upstream_id is None and isinstance(upstream_id, str):
            item.upstream_id = upstream_id
            self._by_id[None, upstream_id] = self._by_id[item.type, upstream_id] = item

    def at(self, index: Any) -> OpenItem | None:
        """The newest item with this index of the upstream's."""
        return self._newest.get(index) if type(index) is int else None

    def find(self, index: Any, item_id: Any, kind: str | None) -> OpenItem | None:
        """The item an event means, finished or not; None if it was never announced.

        kind: the type it must have, None for any. The index counts, unless the id belongs to another item.
        """
        at = self._by_index.get((kind, index)) if type(index) is int else None
        named = self._by_id.get((kind, item_id)) if isinstance(item_id, str) else None
        if at is not None and (named is None or at.upstream_id == item_id):
            unheard_of = named is None and isinstance(item_id, str) and at.upstream_id is not None
            return None if at.is_written and unheard_of else at
        if named is not None:
            # With an index where nothing is yet, it is a new item: the id is one that repeats.
            moved = at is None and type(index) is int and named.upstream_index is not None
            return None if moved else named
        if type(index) is not int and not isinstance(item_id, str):
            return next((i for i in reversed(self.of_round) if not i.is_written and kind in (None, i.type)), None)
        return None

    def repeated(self, index: Any, given: dict[str, Any]) -> OpenItem | None:
        """The item that an announcement announces once more, None if it is a new one."""
        found = self.find(index, given.get("id"), given["type"])
        if found is None or found.implied:
            return found
        if type(index) is not int and not isinstance(given.get("id"), str):
            return None
        return found if given.get("id") in (None, found.upstream_id) else None

    def answered_by(self, given: dict[str, Any]) -> str | None:
        """Our id of the call that an output in the same response answers; None if it is no such output."""
        if given["type"] in OUTPUT_TYPES:
            for item in reversed(self.of_round):
                if item.type in CALL_TYPES and item.upstream.get("call_id") == given.get("call_id"):
                    return item.call_id
        return None

    def match(self, output: list[dict[str, Any]]) -> list[tuple[dict[str, Any], OpenItem | None]]:
        """Each item of an upstream's final output with the one it is here; None for those the stream left out."""
        rules: tuple[_Rule, ...] = (
            lambda index, given, item: isinstance(given.get("id"), str) and item.upstream_id == given["id"],
            lambda index, given, item: item.upstream_index == index,
            lambda index, given, item: True,  # the upstream made new ids for its final output
        )
        free, found = self.of_round, dict[int, OpenItem]()
        for rule in rules:
            for index, given in enumerate(output):
                if index in found:
                    continue
                item = next((i for i in free if i.type == given["type"] and rule(index, given, i)), None)
                if item is not None:
                    found[index] = item
                    free.remove(item)
        return [(given, found.get(index)) for index, given in enumerate(output)]
