"""The events of one run, and of those that follow it because it was steered: each once, in order."""

from __future__ import annotations

from typing import Any

from antiphon.cli.client.chat.outgoing import TRANSIENT
from antiphon.cli.client.run_cursor import RunCursor
from antiphon.errors import ClientError

Frame = dict[str, Any]
_ATTACH = "attach"


class RunEvents:
    """is_over: the last event was taken. failed: it was `response.failed`."""

    def __init__(self, response_id: str) -> None:
        self.is_over = False
        self.failed = False
        self._cursor = RunCursor(response_id)
        self._lane: str | None = None
        self._awaits_successor = False

    def attach(self) -> Frame:
        """The command that begins, or goes on after the last event."""
        self._lane = None
        return {"type": "antiphon:attach", "id": _ATTACH, **self._cursor.position()}

    def take(self, frame: Frame) -> tuple[list[Frame], bool]:
        """What is to be shown of a frame, and whether to attach again. Raises ClientError for a refusal."""
        kind = str(frame.get("type"))
        if kind == "antiphon:error" and frame.get("id") == _ATTACH:
            return self._refused(frame)
        if kind in ("antiphon:attached", "antiphon:run_attached"):
            return self._attached(frame)
        if kind == "antiphon:run" and frame["response_id"] == self._cursor.response_id:
            self._cursor.told = frame["state"]["epoch"]
        elif kind == "antiphon:detached" and frame["stream_id"] == self._lane:
            return [], frame["reason"] != "ended" and not self._cursor.ended
        elif kind.startswith("response.") and frame.get("stream_id") == self._lane:
            return self._event(frame)
        return [], False

    def _event(self, frame: Frame) -> tuple[list[Frame], bool]:
        if frame["type"].startswith(("response.inject.", "response.steer.")):
            return [], False
        verdict = self._cursor.take(frame)
        if verdict == "new" and self._cursor.ended:
            self._end(frame["response"])
        return [frame] if verdict == "new" else [], verdict == "gap"

    def _attached(self, frame: Frame) -> tuple[list[Frame], bool]:
        run_id = str(frame["response_id"])
        if run_id != self._cursor.response_id:
            if not self._awaits_successor:
                return [], False
            self._cursor, self._awaits_successor = RunCursor(run_id), False
        self._lane = str(frame["stream_id"])
        self._cursor.attached(frame)
        terminal = (frame.get("state") or {}).get("terminal") or {}
        if self._awaits_successor and terminal.get("successor"):
            self._cursor, self._awaits_successor = RunCursor(str(terminal["successor"])), False
            return [], True
        if frame["mode"] == "ended":
            self._end(frame.get("response") or {})
        return ([frame] if frame["mode"] in ("snapshot", "ended") else []), False

    def _end(self, response: Frame) -> None:
        self._awaits_successor = (response.get("incomplete_details") or {}).get("reason") == "steered"
        self.is_over = not self._awaits_successor
        self.failed = response.get("status") == "failed"

    def _refused(self, frame: Frame) -> tuple[list[Frame], bool]:
        code = str(frame["code"])
        if code == "epoch_changed":
            self._cursor.forked(str(frame["epoch"]), int(frame["fork"]))
            return [frame], True
        if code in ("cursor_in_future", "cursor_expired"):
            self._cursor.anew()
            return [frame], True
        if code in TRANSIENT:
            return [], True
        raise ClientError(str(frame["message"]), code=code)
