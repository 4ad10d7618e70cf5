"""Compacting a history: one model call writes the summary that takes its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson
import structlog

from antiphon.core import compaction
from antiphon.core.assembly.outcome import Outcome, normal_usage
from antiphon.core.compaction import Plan
from antiphon.core.history import encode_items
from antiphon.core.input_items import list_items
from antiphon.core.summary import AnswerReader, summary_body, trigger_body
from antiphon.core.usage_estimate import Said
from antiphon.errors import RequestError, UpstreamError
from antiphon.ports import ModelCall
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.run import Model

log = structlog.get_logger(__name__)

Counted = Callable[[ModelCall, Outcome | None, Said], None]
"""Told of a model call that is over: how it ended (None if it was cut off), and how much the model gave."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compacted history. context: encoded items, joined by commas, that take the place of all before them.

    item: the `compaction` item that holds it, without an id. kept: the messages of the user in it. usage: of the
    model call, as on the wire.
    """

    context: bytes
    item: dict[str, Any]
    kept: list[dict[str, Any]]
    usage: dict[str, Any] | None


class Compactor:
    """Compacts histories, by a summary of ours or, where the upstream has it, by the upstream's own means."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def wanted(
        self,
        model: Model,
        raw: Mapping[str, Any],
        context: bytes,
        usage: dict[str, Any] | None = None,
        counted: int = 0,
    ) -> bool:
        """Whether the next model call would be over the threshold that the request sets.

        context: the encoded input list of that call. usage: of this run's last model call, whose list was the
        first `counted` bytes of this one. Without usage the whole is estimated at four bytes a token.
        """
        threshold = compaction.threshold_tokens(raw.get("context_management"))
        if threshold is None or is_native(model):
            return False
        known = usage is not None and usage["input_tokens"] > 0
        new = context[counted - 1 : -1].lstrip(b",") if known else context[1:-1]
        tokens = usage["input_tokens"] if usage is not None and known else _fixed_tokens(raw)
        if tokens + len(new) // compaction.BYTES_PER_TOKEN <= threshold:
            return False  # the usual case, without reading the context
        items = orjson.loads(context)
        if tokens + compaction.estimate_tokens(orjson.loads(b"[" + new + b"]")) <= threshold:
            return False
        planned = compaction.plan(items)
        return planned is not None and compaction.is_worth_it(planned, threshold)

    async def compact(
        self,
        model: Model,
        context: bytes,
        *,
        run_id: str,
        tenant: str,
        raw: Mapping[str, Any],
        caller_token: str | None = None,
        on_degraded: Callable[[str, str], None] | None = None,
        counted: Counted = lambda *_: None,
    ) -> Compacted | Outcome:
        """Compact the encoded input list `context` with one model call; an Outcome is the call's failure.

        raw: the request, whose instructions hold for the summary as well. caller_token, on_degraded: as in
        `ModelCall`. counted: told of the call, however it ends. Nothing is changed or stored. Raises UpstreamError
        as every model call, and RequestError as `check_compactable`.
        """
        planned = check_compactable(context)
        native = is_native(model)
        body = (trigger_body if native else summary_body)(raw, model.name, context)
        answer = await _ask(model, ModelCall(run_id, model.name, body, caller_token, on_degraded), counted)
        made = answer.compaction() if native else answer.summary()
        usage = answer.outcome.usage if answer.outcome else None
        if isinstance(made, Outcome):
            log.warning("compaction_failed", response_id=run_id, code=made.code)
            return made
        done = self._native(planned, made) if isinstance(made, dict) else self._summarised(planned, made, tenant)
        sizes = {"bytes_before": len(context), "bytes_after": len(done[0])}
        log.info("compaction", response_id=run_id, native=native, **sizes)
        kept = [item for item in (*planned.before, *planned.after) if item.get("role") == "user"]
        return Compacted(*done, kept, usage)

    async def answer(
        self,
        model: Model,
        context: bytes,
        mint: Callable[[str], str],
        created_at: int,
        *,
        tenant: str,
        raw: Mapping[str, Any],
        caller_token: str | None,
        made_id: str | None = None,
        counted: Counted = lambda *_: None,
    ) -> dict[str, Any]:
        """The object that the compact endpoint gives: what users said, then the `compaction` item.

        mint: makes ids. created_at: Unix seconds. made_id: of the object, if it is known already. counted: told of
        the model call, however it ends. Raises as `compact`, and UpstreamError for every failed call.
        """
        made_id = made_id or mint("resp")
        made = await self.compact(
            model,
            context,
            run_id=made_id,
            tenant=tenant,
            raw=raw,
            caller_token=caller_token,
            counted=counted,
        )
        if isinstance(made, Outcome):
            error = made.error or {}
            raise UpstreamError(
                error["message"], code=error["code"], status=made.http_status, headers=dict(made.headers or {})
            )
        return {
            "id": made_id,
            "object": "response.compaction",
            "created_at": created_at,
            "output": [*list_items(made_id, encode_items(made.kept)), {"id": mint("cmp"), **made.item}],
            "usage": made.usage or normal_usage({}),
        }

    def _summarised(self, planned: Plan, text: str, tenant: str) -> tuple[bytes, dict[str, Any]]:
        items = planned.with_summary(text)
        sealed = self._sealer.seal(items, tenant)
        return encode_items(items), {"type": "compaction", "encrypted_content": sealed}

    def _native(self, planned: Plan, item: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """The upstream knows what its item holds, and finds it by its own id."""
        shown = {key: value for key, value in item.items() if key != "id"}
        return encode_items([*planned.before, *planned.after, item]), shown


def check_compactable(context: bytes) -> Plan:
    """How an encoded input list is compacted. Raises RequestError if a call is open or nothing is there."""
    items: list[dict[str, Any]] = orjson.loads(context)
    if not items:
        raise RequestError("There is nothing to compact.", param="input")
    planned = compaction.plan(items)
    if planned is None:
        raise RequestError(
            "Nothing is compacted while calls are open; answer them first.",
            code="tool_output_missing",
            param="input",
        )
    return planned


def _fixed_tokens(raw: Mapping[str, Any]) -> int:
    """What a call holds beside its input, estimated."""
    return len(orjson.dumps([raw.get("instructions"), raw.get("tools")])) // compaction.BYTES_PER_TOKEN


def is_native(model: Model) -> bool:
    """Whether the upstream compacts by itself."""
    return model.settings is not None and model.settings.native_compaction


async def _ask(model: Model, call: ModelCall, counted: Counted) -> AnswerReader:
    answer = AnswerReader()
    stream = model.upstream.stream(call)
    try:
        async with contextlib.aclosing(cast(Any, stream)):
            async for batch in stream:
                for raw in batch:
                    answer.feed(raw)
                if answer.outcome is not None:
                    break
    finally:
        counted(call, answer.outcome, answer.said)
    return answer
