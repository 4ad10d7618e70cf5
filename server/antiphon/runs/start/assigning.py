"""Who does what a create asks for: its agent, the models that may answer, their tools (door, steps 4 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.core.instructions import put_before
from antiphon.core.principal import Principal
from antiphon.core.tool_registry import CLIENT_TOOLS, DeclaredTools, is_web_search, sort_tools
from antiphon.core.tool_scope import ANY_SERVER, ToolScope
from antiphon.errors import RequestError
from antiphon.governance.agents import BUILT_IN, Agent, Agents
from antiphon.governance.model_policy import ModelPolicy
from antiphon.ports import Toolbox
from antiphon.runs.run import Create, Model
from antiphon.settings.tenants import TenantSettings
from antiphon.settings.tools import OWN_LABEL
from antiphon.upstream.chat.request import check_chat_body
from antiphon.upstream.router import UpstreamRouter, no_model


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything but the input.

    create: as the run has it: its request names a model, and what the agent wishes for calls of clients is in it.
    asked: as models get it, without the input.
    """

    create: Create
    asked: dict[str, Any]
    agent: Agent
    model: Model
    declared: DeclaredTools


class Assigner:
    """Decides it. default_model: for creates that name no model, and whose agent names none."""

    def __init__(
        self,
        *,
        agents: Agents,
        policy: ModelPolicy,
        router: UpstreamRouter,
        toolbox: Toolbox,
        tenants: Sequence[TenantSettings],
        default_model: str | None,
    ) -> None:
        self._agents = agents
        self._policy = policy
        self._router = router
        self._toolbox = toolbox
        self._tools = {one.id: frozenset(one.tools) for one in tenants if one.tools is not None}
        self._default_model = default_model

    async def assign(
        self,
        create: Create,
        principal: Principal,
        items: Sequence[dict[str, Any]],
        agent_name: str | None,
        override: str | None,
    ) -> Assignment:
        """items: the new input, which may declare tools. override: the model that was asked for.

        Raises RequestError `agent_not_found`, `model_required`, `model_not_found`, `model_not_allowed`,
        `unsupported_tool`, StorageError.
        """
        agent = await self._agents.resolve(principal.tenant, agent_name)
        model = await self._authorised(create, principal, agent, self._authorise(principal, agent, override))
        return self.bind(create, principal, agent, model, items)

    def _authorise(self, principal: Principal, agent: Agent, override: str | None) -> str:
        """The model to ask, once it and every other that could answer are known to be open to the tenant."""
        name = override or agent.model or self._default_model
        if name is None:
            raise RequestError("Name a model, or an agent that has one.", code="model_required", param="model")
        tenant = principal.tenant
        chain = self._router.chain(
            name,
            fallbacks=agent.fallbacks,
            strict=agent.strict_fallbacks,
            allowed=lambda model: self._policy.may_use(tenant, model),
        )
        if override is not None and not self._policy.may_use(tenant, override):
            raise no_model(override)
        named_by_others = chain[1:] if override is not None else chain
        if agent.model is not None:
            named_by_others = [agent.model, *named_by_others]
        if not all(self._policy.may_use(tenant, model) for model in named_by_others):
            # Which of them is not said: the caller did not name it.
            raise RequestError(
                "A model that this run would use is not open to its tenant.",
                code="model_not_allowed",
                param="model",
                headers={"x-should-retry": "false"},
            )
        return name

    async def model(self, create: Create, principal: Principal, agent: Agent, name: str) -> Model:
        """The model of a run, authorised again. Raises RequestError."""
        return await self._authorised(create, principal, agent, self._authorise(principal, agent, name))

    async def _authorised(self, create: Create, principal: Principal, agent: Agent, name: str) -> Model:
        upstream, upstream_name, settings = await self._router.resolve(
            name,
            lambda model: self._policy.may_use(principal.tenant, model),
            fallbacks=agent.fallbacks,
            strict=agent.strict_fallbacks,
        )
        if create.caller_token is not None and (settings is None or not settings.caller_key):
            raise RequestError(
                f"The upstream of '{name[:80]}' does not take tokens of callers.",
                param="antiphon.upstream_authorization",
            )
        return Model(upstream, upstream_name, settings, upstream.tools)

    def bind(
        self,
        create: Create,
        principal: Principal,
        agent: Agent,
        model: Model,
        items: Sequence[dict[str, Any]],
    ) -> Assignment:
        """The create with agent, model and effective tools. Raises RequestError for tools that cannot work."""
        scope = ToolScope(
            self._tools.get(principal.tenant), None if agent.tools is None else frozenset(agent.tools)
        )
        declared = self._effective_tools(create, items, model, agent, scope)
        asked = {key: value for key, value in create.raw.items() if key != "input"}
        instructions = put_before(agent.instructions, asked.get("instructions"))
        if instructions is not None:
            asked["instructions"] = instructions
        return Assignment(_with_wishes(create, agent, model.name), asked, agent, model, declared)

    def answered(
        self, create: Create, principal: Principal, model: Model, items: Sequence[dict[str, Any]]
    ) -> Assignment:
        """The create of a run that asks no model: only the client's own tools are left."""
        nothing = BUILT_IN.model_copy(update={"tools": ()})
        return replace(self.bind(create, principal, nothing, model, items), agent=BUILT_IN)

    def _effective_tools(
        self,
        create: Create,
        items: Sequence[dict[str, Any]],
        model: Model,
        agent: Agent,
        scope: ToolScope,
    ) -> DeclaredTools:
        """Requested, and the agent's, and the tenant's."""
        given: Sequence[dict[str, Any]] = create.raw.get("tools") or ()
        requested = [tool for tool in given if (name := _listed_as(tool)) is None or scope.has_agent(name)]
        for tool in requested:
            _check_tenants(tool, scope)
        settings = model.settings
        native: Sequence[str] | None = None
        if settings is not None:
            native = settings.native_tools if settings.native_tools is not None else _NATIVE[settings.api]
        declared = sort_tools(
            requested,
            items,
            owns_web_search=self._toolbox.owns_web_search(),
            native=native,
            ignored=settings.ignore_tools if settings is not None else (),
        )
        if declared.server:
            self._toolbox.check(declared.server, scope)
        unasked = list(model.tools)
        if create.raw.get("tools") is None:
            unasked += [name for name in agent.tools or () if self._toolbox.knows(name)]
        if unasked or scope != declared.scope:
            unasked = [name for name in dict.fromkeys(unasked) if name in scope]
            declared = replace(declared, unasked=tuple(unasked), scope=scope)
        return declared


_OF_RESPONSES = ("prompt", "image", "access_programs", "prompt_cache_options")


def check_native(create: Create, assignment: Assignment) -> None:
    """Refuse what only an upstream that speaks Responses could act on. Raises RequestError."""
    settings = assignment.model.settings
    if settings is not None and settings.api == "responses":
        return
    for param in _OF_RESPONSES:
        if create.raw.get(param) is not None:
            raise RequestError(
                f"The server of this model knows no {param}.", code="unsupported_parameter", param=param
            )


def check_chat(create: Create, mapped: Sequence[dict[str, Any]], assignment: Assignment) -> None:
    """Refuse what a model server that speaks Chat Completions could never take. Raises RequestError."""
    settings, declared = assignment.model.settings, assignment.declared
    if settings is not None and settings.api == "chat":
        choice = None if declared.server else create.raw.get("tool_choice")
        sent = {"input": mapped, "tools": list(declared.passed), "tool_choice": choice}
        check_chat_body({**assignment.asked, **sent})


def _check_tenants(tool: Mapping[str, Any], scope: ToolScope) -> None:
    """What the tenant has not is refused; a label of a server, by the toolbox, like one that does not exist."""
    name = _listed_as(tool)
    is_label = tool["type"] == "mcp" and name != ANY_SERVER
    if name is not None and not is_label and not scope.has_tenant(name):
        raise RequestError(
            f"Nobody here can execute {tool['type']!r} for this tenant.", code="unsupported_tool", param="tools"
        )


def _listed_as(tool: Mapping[str, Any]) -> str | None:
    """The name of a declared tool in lists of tools; None for what is not listed as a whole.

    These are the client's own, and the label of the server's own tools, each of which has a name.
    """
    kind = str(tool["type"])
    if kind in CLIENT_TOOLS:
        return None
    if kind != "mcp":
        return "web_search" if is_web_search(kind) else kind
    if tool.get("server_url") is not None:
        return ANY_SERVER
    return None if tool.get("server_label") == OWN_LABEL else str(tool.get("server_label"))


def _with_wishes(create: Create, agent: Agent, model: str) -> Create:
    """The create as its run has it. An agent's hold is for creators that know what a held call is."""
    options = create.request.antiphon
    update: dict[str, Any] = {}
    knows = isinstance(create.raw.get("antiphon"), dict) or (
        create.connection is not None and create.connection.said_hello
    )
    if agent.client_tools == "hold" and "client_tools" not in options.model_fields_set and knows:
        update["client_tools"] = "hold"
    if agent.labels:
        update["labels"] = {**agent.labels, **options.labels}
    if update:
        options = options.model_copy(update=update)
    elif create.request.model == model:
        return create
    request = create.request.model_copy(update={"model": model, "antiphon": options})
    return replace(create, request=request)


_NATIVE: dict[str, tuple[str, ...] | None] = {"responses": None, "chat": ()}
"""Hosted tools that an upstream counts as having when its settings do not say; None for all."""
