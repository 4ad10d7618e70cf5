"""What stands around every run: may rewrite what is asked, answer in the model's place, or refuse."""

from __future__ import annotations

import structlog

from antiphon.governance.hooks.dispatch import Dispatcher
from antiphon.governance.hooks.passage import Passage
from antiphon.hooks import RunRequest

log = structlog.get_logger(__name__)

EVENT = "agent.run"


class Middlewares:
    """All middlewares of the server, in order. chain_s: what they may take together before a run goes on."""

    def __init__(self, dispatcher: Dispatcher, chain_s: float) -> None:
        self._dispatcher = dispatcher
        self._chain_s = chain_s

    async def enter(self, request: RunRequest) -> Passage:
        """Let them decide; nothing of the run exists yet.

        Raises AntiphonError: a Deny or whatever else of ours they raise, unchanged; HookError `server_error` for
        one that broke its contract or crashed, `middleware_timeout` for one that was too slow.
        """
        stages = self._dispatcher.waterfall(EVENT, request)
        passage = Passage(request, stages, self._chain_s, self._dispatcher.calls)
        await passage.decide()
        if passage.changes:
            log.info("run_rewritten", response_id=request.run_id, changes=passage.changed)
        if passage.reply is not None:
            log.info("run_answered", response_id=request.run_id, middleware=passage.by)
        return passage
