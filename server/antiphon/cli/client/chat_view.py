"""What a chat tells, on a screen."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from antiphon.cli.client.chat import wording
from antiphon.cli.client.chat.told import Answered, Asked, Began, Called, Ended, Heard, Piece, Rewound, Told
from antiphon.cli.client.pages import Pages, Turn
from antiphon.cli.client.printable import one_line, printable
from antiphon.cli.client.questions import ASK_PERSON
from antiphon.cli.client.screen import FAULT, QUESTION, REMARK, Screen
from antiphon.errors import ClientError

_DEADLINE = "system:deadline"


class ChatView:
    """went_well: the last answer did not fail, and nothing was refused."""

    def __init__(self, screen: Screen, pages: Pages) -> None:
        self.went_well = True
        self._screen = screen
        self._pages = pages
        self._item: str | None = None

    async def show(self, told: Told) -> None:
        """Show one thing."""
        if isinstance(told, Piece):
            if told.item_id != self._item:
                self._screen.end_of_text()
            self._item = told.item_id
            self._screen.text(told.text, is_reasoning=told.is_reasoning)
        elif isinstance(told, Began):
            await self._begin(told)
        elif isinstance(told, Called):
            if told.name != ASK_PERSON:
                self._screen.lines([f"· {wording.called(told)}"])
        elif isinstance(told, Ended):
            self._end(told)
        else:
            self._remark(told)

    def show_turns(self, turns: Sequence[Turn]) -> None:
        """What was said before."""
        for turn in turns:
            self._screen.lines(wording.quoted("before", turn.question))
            self._screen.lines(printable(turn.answer).split("\n"), "")

    async def _begin(self, told: Began) -> None:
        """Somebody else's answer begins with what they asked."""
        if not told.mine:
            with contextlib.suppress(ClientError):
                question = await self._pages.question(told.run_id)
                self._screen.lines(wording.quoted(told.principal or "somebody", question), QUESTION)

    def _end(self, told: Ended) -> None:
        self._screen.end_of_text()
        self._item = None
        self.went_well = told.status in ("completed", "incomplete")
        if words := wording.ended(told):
            self._screen.lines([words], FAULT if told.status == "failed" else REMARK)

    def _remark(self, told: Told) -> None:
        if isinstance(told, Asked):
            self._screen.lines(told.question.lines, QUESTION)
        elif isinstance(told, Answered):
            self._show_answered(told)
        elif isinstance(told, Heard):
            self._screen.lines(["· heard"], amid=True)
        elif isinstance(told, Rewound):
            self._screen.lines(["the server lost the last words of this answer; what counts follows"])

    def _show_answered(self, told: Answered) -> None:
        if told.by == _DEADLINE:
            self._screen.lines(["nobody answered in time"])
        elif told.by is not None:
            self._screen.lines([f"{one_line(told.by, 60)} answered {one_line(told.question.name, 60)}"])
