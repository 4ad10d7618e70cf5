"""Compacting a history on request: a model call that is no run, through the same door."""

from __future__ import annotations

from typing import Any

from antiphon.core.assembly.outcome import Outcome
from antiphon.core.budgets import Spender
from antiphon.core.history import encode_history
from antiphon.core.principal import Principal
from antiphon.core.usage_estimate import Said
from antiphon.errors import AntiphonError
from antiphon.governance.usage.meter import Meter
from antiphon.hooks import RunOutcome
from antiphon.ports import Clock, Ids, ModelCall
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.loop.charging import charge_call
from antiphon.runs.run import Create
from antiphon.runs.start.pipeline import Prepared
from antiphon.runs.start.starter import RunStarter

_STEP = "compaction:1"


class StandaloneCompaction:
    """The compact endpoint."""

    def __init__(self, starter: RunStarter, compactor: Compactor, meter: Meter, clock: Clock, ids: Ids) -> None:
        self._starter = starter
        self._compactor = compactor
        self._meter = meter
        self._clock = clock
        self._ids = ids

    async def compact(self, create: Create, principal: Principal) -> dict[str, Any]:
        """A compacted form of the history a create names. Nothing is started or stored. Raises AntiphonError."""
        made_id = self._ids.mint("resp")
        reservation, prepared = await self._starter.prepare_only(made_id, create, principal)
        try:
            answer = await self._answer(made_id, prepared, principal)
        except AntiphonError as error:
            prepared.passage.refuse(error)
            raise
        except BaseException:
            prepared.passage.abandon()
            raise
        finally:
            reservation.ended()
        prepared.passage.end(_outcome(made_id, prepared, answer["usage"]))
        return answer

    async def _answer(self, made_id: str, prepared: Prepared, principal: Principal) -> dict[str, Any]:
        model, create = prepared.model, prepared.create
        spender = Spender(made_id, principal.tenant, principal.id, prepared.agent.name, principal.tier)

        def counted(call: ModelCall, outcome: Outcome | None, said: Said) -> None:
            if model.charged:
                charge_call(self._meter, spender, _STEP, model.name, model.upstream.name, call, outcome, said)

        return await self._compactor.answer(
            model,
            encode_history(prepared.parent, prepared.input),
            self._ids.mint,
            int(self._clock.now()),
            tenant=principal.tenant,
            raw=prepared.asked,
            caller_token=create.caller_token,
            made_id=made_id,
            counted=counted,
        )


def _outcome(made_id: str, prepared: Prepared, usage: dict[str, Any]) -> RunOutcome:
    return RunOutcome(
        run_id=made_id,
        status="completed",
        code=None,
        agent=prepared.agent.name,
        source=prepared.agent.source,
        model=prepared.model.name,
        upstream=prepared.model.upstream.name,
        usage=usage,
    )
