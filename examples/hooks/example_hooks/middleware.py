"""Middleware: card numbers never reach a model, some questions are refused, and one is answered here."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import structlog

from antiphon.hooks import Deny, Next, Reply, RunOutcome, RunRequest

log = structlog.get_logger(__name__)

_CARD = re.compile(r"\b(?:\d[ -]?){12,18}\d\b")


class CardNumbers:
    """refuse: phrases that no run may contain."""

    def __init__(self, refuse: Sequence[str] = ()) -> None:
        self._refuse = [phrase.lower() for phrase in refuse]

    async def __call__(self, request: RunRequest, next: Next) -> RunOutcome | Reply:
        texts = [text.lower() for text in request.texts()]
        if any(phrase in text for phrase in self._refuse for text in texts):
            raise Deny("forbidden_phrase", "This server does not talk about that.")
        if texts == ["ping"]:
            return Reply(text="pong")
        began = time.monotonic()
        outcome = await next(request.with_texts(lambda text: _CARD.sub("[card number]", text)))
        # The run is over and everybody has seen it: from here on it can only be looked at.
        log.info("run_took", run_id=request.run_id, status=outcome.status, s=round(time.monotonic() - began, 3))
        return outcome
