"""From a create that was admitted to everything its run starts with, in the one order (ARCHITECTURE "A run").

read parent and input → middleware → agent → model and fallbacks → tools. Nothing of it leaves a trace: a create
that is refused on the way has no log, no row and no event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from antiphon.core.agent_names import named
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.create_request import parse_create
from antiphon.core.history import Approval, Turn
from antiphon.core.model_body import holds_credentials, without_credentials
from antiphon.core.principal import Principal
from antiphon.core.tool_registry import DeclaredTools
from antiphon.errors import AntiphonError, RequestError
from antiphon.governance.agents import Agent
from antiphon.governance.context import ContextProviders
from antiphon.governance.hooks.passage import Passage
from antiphon.governance.middleware import Middlewares
from antiphon.governance.skills import Skills
from antiphon.hooks import Reply, RunRequest, SkillDispatch
from antiphon.runs.run import Create, Model
from antiphon.runs.start.assigning import Assigner, Assignment, check_chat, check_native
from antiphon.runs.start.given_answer import given_model
from antiphon.runs.start.reading import CreateReader, ReadCreate
from antiphon.store.named_conversations import NamedConversation

Ask = Callable[[Principal, Mapping[str, Any]], Awaitable[Any]]
"""Starts a run of a create for a principal and gives its result."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run starts with.

    create, asked, agent, model, declared: see `Assignment`. input: its new items as the upstream gets them.
    client_input: as the client sent them, or a middleware in its place. item_ids: those that were given. kept: the
    rest of the create, as it can be written down; None if nobody could go on with the run after this process.
    approvals, ends_in_calls, conversation: see `ReadCreate`.
    """

    create: Create
    asked: dict[str, Any]
    agent: Agent
    model: Model
    declared: DeclaredTools
    parent: Turn | None
    input: bytes
    client_input: bytes
    item_ids: Sequence[str]
    kept: bytes | None
    approvals: list[Approval]
    passage: Passage
    ends_in_calls: bool = False
    conversation: NamedConversation | None = None


class Pipeline:
    """The steps behind admission. ask: for skills; set by who knows how runs are awaited."""

    def __init__(
        self,
        reader: CreateReader,
        assigner: Assigner,
        middlewares: Middlewares,
        context: ContextProviders,
        skills: Skills,
    ) -> None:
        self._reader = reader
        self._assigner = assigner
        self._middlewares = middlewares
        self._context = context
        self._skills = skills
        self.ask: Ask | None = None

    async def prepare(
        self,
        run_id: str,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        steered: Sequence[dict[str, Any]] = (),
        skill: SkillDispatch | None = None,
    ) -> Prepared:
        """steered: what was said to the parent while it ran; it comes before the input. Raises AntiphonError."""
        agent, model = named(create.request.model, create.request.antiphon.agent)
        read = await self._reader.read(create, principal, memory, steered)
        passage = await self._middlewares.enter(_request(run_id, create, principal, read, agent, model))
        try:
            create, read = await self._rewritten(passage, create, principal, read)
            assignment = await self._assign(passage, create, principal, read, skill)
            return _prepared(assignment, principal, read, passage)
        except AntiphonError as error:
            passage.refuse(error)
            raise
        except BaseException:
            passage.abandon()
            raise

    async def _rewritten(
        self, passage: Passage, create: Create, principal: Principal, read: ReadCreate
    ) -> tuple[Create, ReadCreate]:
        """The create with the input that the middlewares made of it, which is read and checked like any other."""
        if passage.request.input is read.items:
            return create, read
        raw = {**create.raw, "input": passage.request.input}
        create = replace(create, request=parse_create(raw), raw=raw)
        again = await self._reader.items(create, principal, read.parent, create.request.items())
        return create, replace(again, conversation=read.conversation)

    async def _assign(
        self,
        passage: Passage,
        create: Create,
        principal: Principal,
        read: ReadCreate,
        skill: SkillDispatch | None,
    ) -> Assignment:
        request = passage.request
        agent, override = named(request.model, request.agent)
        if passage.reply is not None:
            reply = passage.reply

            async def given() -> Reply:
                return reply

            model = given_model(passage.by or "middleware", override, given)
            return self._assigner.answered(create, principal, model, read.items)
        if skill is not None:
            return await self._assign_skill(skill, create, principal, read)
        assignment = await self._assigner.assign(create, principal, read.items, agent, override)
        check_native(create, assignment)
        check_chat(create, read.mapped, assignment)
        self._context.choose(create.request.antiphon.context, assignment.agent.context)
        return assignment

    async def _assign_skill(
        self, skill: SkillDispatch, create: Create, principal: Principal, read: ReadCreate
    ) -> Assignment:
        executor = await self._skills.find(skill)
        ask = self.ask
        assert ask is not None, "the engine says how runs are awaited"

        async def given() -> Reply:
            text = await self._skills.execute(skill, principal, lambda raw: ask(principal, raw), executor)
            return Reply(text=text)

        model = given_model(f"skill:{skill.skill_id}", None, given)
        return self._assigner.answered(create, principal, model, read.items)


def _request(
    run_id: str, create: Create, principal: Principal, read: ReadCreate, agent: str | None, model: str | None
) -> RunRequest:
    """The run as middlewares see it."""
    return RunRequest(
        run_id=run_id,
        principal=principal,
        origin=create.origin,
        conversation=conversation_of(read.conversation, read.parent),
        previous_response_id=create.request.previous_response_id,
        agent=agent,
        model=model,
        input=read.items,
    )


def _prepared(assignment: Assignment, principal: Principal, read: ReadCreate, passage: Passage) -> Prepared:
    return Prepared(
        create=assignment.create,
        asked=assignment.asked,
        agent=assignment.agent,
        model=assignment.model,
        declared=assignment.declared,
        parent=read.parent,
        input=read.input,
        client_input=read.client_input,
        item_ids=read.item_ids,
        kept=_kept(assignment, principal, approved=bool(read.approvals)),
        approvals=read.approvals,
        passage=passage,
        ends_in_calls=read.ends_in_calls,
        conversation=read.conversation,
    )


def conversation_of(named: NamedConversation | None, parent: Turn | None) -> str | None:
    """The conversation a turn belongs to, None for one that begins a new one."""
    if named is not None:
        return named.id
    return parent.conversation_id if parent is not None else None


def _kept(assignment: Assignment, principal: Principal, *, approved: bool) -> bytes | None:
    """The create without its input, so that it can be taken up by another process. Raises RequestError.

    None where it cannot: it is not stored, or holds credentials of the caller, which are never written down, or
    its answer comes from no model and lives here only. approved: it begins with calls that were approved, so that
    nobody may begin it once more.
    """
    create, agent = assignment.create, assignment.agent
    if not create.request.stored:
        return None
    rest = {key: value for key, value in create.raw.items() if key != "input"}
    options = create.request.antiphon
    if options.client_tools == "hold":
        rest["antiphon"] = {**(rest.get("antiphon") or {}), "client_tools": "hold"}
    kept = {
        "create": without_credentials(rest),
        "agent": agent.encoded(),
        "model": assignment.model.name,
        "approved": approved,
        "origin": create.origin,
        "instance": create.instance,
        "role": principal.role,
        "tier": principal.tier,
    }
    try:
        encoded = orjson.dumps(kept)
    except TypeError as error:
        raise RequestError(f"The request cannot be kept: {error}.", code="invalid_json") from error
    lives_here = create.caller_token is not None or holds_credentials(rest) or not assignment.model.charged
    return None if lives_here else encoded
