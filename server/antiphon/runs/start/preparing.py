"""What is decided about a create before anything exists: its parent, its input, its model, its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.context import Owned, given_ids
from antiphon.core.history import (
    Approval,
    Turn,
    approvals,
    check_continuable,
    echoed_approvals,
    encode_history,
    encode_items,
    resolve_outputs,
    take_approvals,
)
from antiphon.core.model_body import holds_credentials, without_credentials
from antiphon.core.principal import Principal
from antiphon.core.tool_registry import DeclaredTools, sort_tools
from antiphon.errors import RequestError
from antiphon.ports import Toolbox
from antiphon.runs.compaction.compactor import check_compactable
from antiphon.runs.directory import RunDirectory
from antiphon.runs.run import Create, Model
from antiphon.runs.start.inputs import InputReader
from antiphon.settings import TenantSettings
from antiphon.upstream.chat.request import check_chat_body
from antiphon.upstream.router import UpstreamRouter, no_model


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run starts with.

    input: its new items as the upstream gets them. client_input: as the client sent them. item_ids: those that the
    client gave. request: the rest of the create, as it can be kept; None if nobody could go on with the run after
    this process. approvals: answers to calls that were asked to be approved; the input then stands behind them,
    unless it ends in these calls.
    """

    parent: Turn | None
    input: bytes
    client_input: bytes
    model: Model
    item_ids: Sequence[str]
    request: bytes | None
    declared: DeclaredTools
    approvals: list[Approval]
    ends_in_calls: bool = False


class Preparer:
    """Reads a create in the light of what is there. Nothing of it leaves a trace."""

    def __init__(
        self,
        directory: RunDirectory,
        router: UpstreamRouter,
        inputs: InputReader,
        toolbox: Toolbox,
        tenants: Sequence[TenantSettings],
    ) -> None:
        self._directory = directory
        self._router = router
        self._inputs = inputs
        self._toolbox = toolbox
        self._tenants: Mapping[str, TenantSettings] = {tenant.id: tenant for tenant in tenants}

    async def prepare(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        steered: Sequence[dict[str, Any]] = (),
    ) -> Prepared:
        """steered: what was said to the parent while it ran; it comes before the input. Raises AntiphonError."""
        request = create.request
        parent = await self._parent(request.previous_response_id, principal, memory)
        items = [*steered, *request.items()]
        if parent is not None:
            check_continuable(parent)
        model = await self.model(create, principal)
        declared = self.sort(create, items, model)
        plain = items[:-1] if request.wants_compaction else items
        owned = Owned(mcp=True, web_search=self._toolbox.owns_web_search())
        mapped = await self._inputs.read(plain, parent, principal, owned)
        said = approvals(parent, plain)
        calls: list[dict[str, Any]] = []
        if parent is None and any(item.get("type") == "mcp_approval_response" for item in mapped):
            mapped, calls, said = take_approvals(mapped, await self._asked(plain, principal))
        mapped = [*resolve_outputs(parent, mapped), *calls]
        client_input = encode_items(items)
        same = len(items) == len(mapped) and all(a is b for a, b in zip(items, mapped, strict=True))
        read = client_input if same else encode_items(mapped)
        if request.wants_compaction:
            check_compactable(encode_history(parent, read))
        if model.settings is not None and model.settings.api == "chat":
            choice = None if declared.server else create.raw.get("tool_choice")
            sent = {"input": mapped, "tools": list(declared.passed), "tool_choice": choice}
            check_chat_body({**create.raw, **sent})
        return Prepared(
            parent=parent,
            input=read,
            client_input=client_input,
            model=model,
            item_ids=given_ids(items),
            request=_kept(create, principal, approved=bool(said)),
            declared=declared,
            approvals=said,
            ends_in_calls=bool(calls),
        )

    async def _asked(self, items: list[dict[str, Any]], principal: Principal) -> dict[str, dict[str, Any]]:
        """The approval requests that a whole history answers, as they were shown: not as the client sends them."""
        wanted = set(echoed_approvals(items))
        found = await self._directory.items(wanted, principal, whole=True) if wanted else {}
        shown = {item_id: known.item for item_id, known in found.items() if known.item is not None}
        return {item_id: item for item_id, item in shown.items() if item["type"] == "mcp_approval_request"}

    async def model(self, create: Create, principal: Principal) -> Model:
        """The model a create names, with every model it may fall back to allowed. Raises RequestError."""
        name = create.request.model
        for allowed in (name, *self._router.chain(name)):
            if not self.may_use(principal, allowed):
                raise no_model(allowed)
        upstream, upstream_name, settings = await self._router.resolve(name)
        if create.caller_token is not None and (settings is None or not settings.caller_key):
            raise RequestError(
                f"The upstream of '{name[:80]}' does not take tokens of callers.",
                param="antiphon.upstream_authorization",
            )
        return Model(upstream, upstream_name, settings, upstream.tools)

    def may_use(self, principal: Principal, model: str) -> bool:
        """Whether the caller's tenant may name this model (if it exists)."""
        tenant = self._tenants.get(principal.tenant)
        return tenant is None or tenant.models is None or model in tenant.models

    def sort(self, create: Create, items: Sequence[dict[str, Any]], model: Model) -> DeclaredTools:
        """Who owns the tools of a create. items: its input. Raises RequestError for tools that cannot work."""
        settings = model.settings
        native = None
        if settings is not None:
            native = settings.native_tools if settings.native_tools is not None else _NATIVE[settings.api]
        declared = sort_tools(
            create.raw.get("tools") or (),
            items,
            owns_web_search=self._toolbox.owns_web_search(),
            native=native,
            ignored=settings.ignore_tools if settings is not None else (),
        )
        if declared.server:
            self._toolbox.check(declared.server)
        return declared

    async def _parent(
        self, response_id: str | None, principal: Principal, memory: ConnectionMemory | None
    ) -> Turn | None:
        if response_id is None:
            return None
        turn = memory.find(response_id) if memory is not None else None
        if turn is None or turn.stored:  # a stored one may have been deleted since
            turn = await self._directory.parent(response_id, principal)
        if turn is None:
            raise RequestError(
                f"Previous response with id '{response_id[:80]}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return turn


_NATIVE: dict[str, tuple[str, ...] | None] = {"responses": None, "chat": ()}
"""Hosted tools that an upstream counts as having when its settings do not say; None for all."""


def _kept(create: Create, principal: Principal, *, approved: bool) -> bytes | None:
    """The create without its input, so that it can be taken up by another process. Raises RequestError.

    None where it cannot: credentials of the caller are never written down. approved: it begins with calls that
    were approved, so that nobody may begin it once more.
    """
    rest = {key: value for key, value in create.raw.items() if key != "input"}
    raw = without_credentials(rest)
    try:
        how = {"origin": create.origin, "instance": create.instance}
        who = {"role": principal.role, "tier": principal.tier}
        kept = orjson.dumps({"create": raw, "approved": approved, **how, **who})
    except TypeError as error:
        raise RequestError(f"The request cannot be kept: {error}.", code="invalid_json") from error
    return None if create.caller_token is not None or holds_credentials(rest) else kept
