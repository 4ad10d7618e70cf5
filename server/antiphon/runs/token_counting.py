"""How many tokens a create would be read as, asked of who would read it."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.history import history_parts
from antiphon.core.model_body import model_body
from antiphon.core.principal import Principal
from antiphon.core.tool_registry import ToolRegistry
from antiphon.errors import RequestError
from antiphon.ports import Ids, ModelCall, Toolbox, ToolList
from antiphon.runs.loop.model_calls import with_tools
from antiphon.runs.loop.steps import offered
from antiphon.runs.run import Create
from antiphon.runs.start.pipeline import Prepared
from antiphon.runs.start.starter import RunStarter


class TokenCounting:
    """The counting endpoint. It estimates nothing: a guess would pass for a count."""

    def __init__(self, starter: RunStarter, toolbox: Toolbox, ids: Ids) -> None:
        self._starter = starter
        self._toolbox = toolbox
        self._ids = ids

    async def count(self, create: Create, principal: Principal) -> int:
        """Tokens of the first model call, without what context providers would add to it.

        Nothing is started, stored or charged. Raises RequestError `counting_not_supported`, AntiphonError.
        """
        run_id = self._ids.mint("resp")
        reservation, prepared = await self._starter.prepare_only(run_id, create, principal, calls_model=False)
        try:
            call = await self._call(run_id, prepared, principal)
            tokens = await prepared.model.upstream.input_tokens(call)
        finally:
            prepared.passage.abandon()
            reservation.ended()
        if tokens is None:
            raise RequestError(
                f"The upstream of {prepared.create.request.model!r} cannot count the tokens of an input.",
                code="counting_not_supported",
                param="model",
            )
        return tokens

    async def _call(self, run_id: str, prepared: Prepared, principal: Principal) -> ModelCall:
        registry = ToolRegistry(prepared.declared, offered(await self._lists(prepared, principal)))
        history = history_parts(prepared.parent, prepared.input)
        body = model_body(with_tools(prepared.asked, registry), prepared.model.name, history)
        return ModelCall(run_id, prepared.model.name, body, prepared.create.caller_token)

    async def _lists(self, prepared: Prepared, principal: Principal) -> Sequence[ToolList]:
        declared = prepared.declared
        if not (declared.server or declared.unasked or self._toolbox.offers_unasked):
            return ()
        opened = await self._toolbox.open(declared.server, principal.tenant, declared.unasked, declared.scope)
        await opened.aclose()
        return opened.lists
