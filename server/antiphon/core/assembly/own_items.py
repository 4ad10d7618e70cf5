"""What the server itself adds to an output: results of its calls, answers of clients, items of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.server_call import CallResult, ServerTool, end_event
from antiphon.core.assembly.wire import ITEM_CHANNEL, id_prefix, to_keep
from antiphon.core.assembly.writer import ItemWriter


class OwnItems(ItemWriter):
    """An item writer for what does not come from the model."""

    def close_items(self, status: str) -> list[bytes]:
        """Finish every open item with `status` (completed or incomplete)."""
        for item in self._items.all:
            self._finish(item, status)
        return self.complete_calls({})

    def release(self) -> list[bytes]:
        """Events that wait for calls which nobody will make any more."""
        for item in self.round_items:
            if item.owner == "approver" and item.done is None:
                self._start_half(item)
        self._sink.release((), lambda index: None)
        return self._sink.take()

    def complete_calls(self, results: Mapping[str, CallResult]) -> list[bytes]:
        """Show what the server's calls of this round gave (by call id), and everything that waited for them.

        A call without a result ends `incomplete`.
        """
        items = self.items

        def finish(index: int) -> None:
            item = items[index]
            if item.owner == "server" and item.done is None:
                self._complete_call(item, results.get(item.call_id or ""))

        self._sink.release(range(self._items.first, len(items)), finish)
        return self._sink.take()

    def begin_call(self, tool: ServerTool, upstream: dict[str, Any], approval_request_id: str) -> OpenItem:
        """A call that was approved: its item, open until `complete_calls`. upstream: the model's function call."""
        item = OpenItem(
            id=self._mint(id_prefix(tool.item_type)),
            index=len(self.items),
            upstream=upstream,
            call_id=self._mint("call"),
            status="completed",
            tool=replace(tool, needs_approval=False),
            approval_request_id=approval_request_id,
            to_model="result",
        )
        self._items.add(item)
        self._announce(item)
        self._close_text(item, item.open_text(ITEM_CHANNEL["function_call"], 0), upstream.get("arguments"))
        return item

    def add_output(self, call: OpenItem, output: dict[str, Any]) -> OpenItem:
        """The answer a client gave to a call of this response, as an item of the output."""
        theirs = call.upstream.get("call_id") or call.call_id
        item = OpenItem(
            id=self._mint(id_prefix(output["type"])),
            index=len(self.items),
            upstream={"status": "completed", **output, "call_id": theirs},
            call_id=call.call_id,
            status="completed",
            to_model="result",
        )
        item.upstream.pop("id", None)
        self._add_whole(item)
        return item

    def add_item(self, given: dict[str, Any], *between: str, started: dict[str, Any] | None = None) -> OpenItem:
        """An item of ours that only clients get: added, the events named, done. started: what added shows."""
        item = OpenItem(
            id=self._mint(id_prefix(given["type"])),
            index=len(self.items),
            upstream=given,
            call_id=None,
            status="completed",
            to_model="nothing",
        )
        self._add_whole(item, *between, started=started)
        return item

    def restore(self, items: Iterable[OpenItem], first: int, next_number: int) -> None:
        """Go on with an output that another process began. first: where the items of the last round begin."""
        for item in items:
            self._items.add(item)
        self._items.first = first
        self.next_number = next_number

    def is_shown(self, item: OpenItem) -> bool:
        """Whether clients get events of this item as they come (else they wait for calls of the server)."""
        return not self._sink.holds(item.index)

    def take(self) -> list[bytes]:
        """Events of items added since the last call."""
        return self._sink.take()

    def _add_whole(self, item: OpenItem, *between: str, started: dict[str, Any] | None = None) -> None:
        self._items.add(item)
        self._sink.item_begins(item.index, server_owned=False, start_waits=False)
        item.done = to_keep(orjson.dumps(item.view("completed")))
        shown = {**item.started(), **(started or {})}
        self._emit(item.index, "response.output_item.added", {"output_index": item.index, "item": shown})
        for event_type in between:
            self._emit(item.index, event_type, {"item_id": item.id, "output_index": item.index})
        self._emit_done(item)

    def _complete_call(self, item: OpenItem, result: CallResult | None) -> None:
        assert item.tool is not None
        item.result = result
        where = {"item_id": item.id, "output_index": item.index}
        status = "incomplete"
        if result is not None:
            status = "completed" if result.error is None else "failed"
            if item.tool.item_type == "web_search_call":
                self._emit(item.index, "response.web_search_call.searching", where)
            self._emit(item.index, end_event(item.tool, result), where)
        item.status = status
        item.done = to_keep(orjson.dumps(item.view(status)))
        self._emit_done(item)
