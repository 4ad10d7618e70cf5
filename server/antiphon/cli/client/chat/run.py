"""One run of a chat: how far it was read, its state, and what its events tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antiphon.cli.client.chat.told import Called, Ended, Piece, Told
from antiphon.cli.client.questions import Question
from antiphon.cli.client.run_cursor import TERMINALS, RunCursor

Frame = dict[str, Any]

_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_CLIENT_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_APPROVAL = "mcp_approval_request"


class ChatRun:
    """mine: what was typed here began it. is_over: its end was told."""

    def __init__(self, response_id: str, *, mine: bool) -> None:
        self.id = response_id
        self.mine = mine
        self.cursor = RunCursor(response_id)
        self.state: Frame | None = None
        self.began = False
        self.is_over = False
        self.is_attaching = False
        self._calls: dict[str, Frame] = {}

    @property
    def principal(self) -> str | None:
        return None if self.state is None else str(self.state["principal"])

    @property
    def steers(self) -> frozenset[str]:
        """Ids of what the one who began the run said to it while it went on."""
        said = (self.state or {}).get("steers", [])
        return frozenset(str(steer["id"]) for steer in said if steer["principal"] == self.principal)

    def update(self, state: Frame) -> None:
        """Take a RunState, unless a newer one is known (10.6.1)."""
        if self.state is None or state["revision"] >= self.state["revision"]:
            self.state = state
            self.cursor.told = state["epoch"]

    def tell(self, event: Frame) -> Iterator[Told]:
        """What an event of the log tells; it was taken by the cursor."""
        kind = event["type"]
        if kind in _TEXT or kind in _REASONING:
            yield Piece(self.id, str(event["item_id"]), str(event["delta"]), kind in _REASONING)
        elif kind == "response.output_item.done":
            yield from self._item(event["item"])
        elif kind in TERMINALS:
            yield self.ended(event["response"])

    def ended(self, response: Frame) -> Ended:
        """The end, from the response as it ended."""
        self.is_over = True
        error, details = response.get("error") or {}, response.get("incomplete_details") or {}
        code = error.get("code") or details.get("reason")
        return Ended(self.id, str(response["status"]), code, error.get("message"))

    def texts(self, response: Frame) -> Iterator[Told]:
        """All that a response says so far, where its events are gone."""
        for item in response.get("output", []):
            for part in item.get("content") or [] if item.get("type") == "message" else []:
                yield Piece(self.id, str(item.get("id")), str(part.get("text") or part.get("refusal") or ""))
            yield from self._item(item)

    def questions(self, connection: str, tools: frozenset[str]) -> Iterator[Question]:
        """Calls that wait and that this connection is asked to answer."""
        for call in (self.state or {}).get("pending_calls", []):
            item = self._calls.get(call["call_id"])
            answerable = call["kind"] == "approval" or call["name"] in tools
            if item is None or not answerable or connection not in call.get("eligible", []):
                continue
            arguments = item.get(_CLIENT_CALLS.get(item["type"], "arguments")) or ""
            name = f"{item['server_label']}.{call['name']}" if item.get("server_label") else call["name"]
            yield Question(self.id, call["call_id"], name, call["kind"], arguments, call.get("deadline"))

    def is_pending(self, call_id: str) -> bool:
        pending = (self.state or {}).get("pending_calls", [])
        return not self.is_over and any(call["call_id"] == call_id for call in pending)

    def answered_by(self, call_id: str) -> str | None:
        """Who answered a call, if the state says so."""
        resolved = (self.state or {}).get("resolved_calls", [])
        return next((str(one["by"]) for one in resolved if one["call_id"] == call_id), None)

    def _item(self, item: Frame) -> Iterator[Told]:
        kind = item.get("type")
        if kind in _CLIENT_CALLS:
            self._calls[item["call_id"]] = item
            yield Called(self.id, str(item.get("name")), str(item.get(_CLIENT_CALLS[kind]) or ""))
        elif kind == _APPROVAL:
            self._calls[item["id"]] = item
        elif kind == "mcp_call":
            name = f"{item.get('server_label')}.{item.get('name')}"
            output, failed = item.get("output"), item.get("error") is not None
            yield Called(self.id, name, str(item.get("arguments") or ""), output, failed)
        elif kind == "web_search_call":
            action = item.get("action") or {}
            yield Called(
                self.id, "web_search", str(action.get("query") or ""), None, item.get("status") == "failed"
            )
