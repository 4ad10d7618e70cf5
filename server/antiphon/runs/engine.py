"""Everything that runs need, put together: the door, the loop, the places where runs are found."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.core.feed_progress import Progress
from antiphon.core.run_state import RunState
from antiphon.governance.accounts import Accounts
from antiphon.governance.agent_keeping import AgentKeeper
from antiphon.governance.agents import Agents
from antiphon.governance.hooks.build import OperatorHooks
from antiphon.governance.model_policy import ModelPolicy
from antiphon.journal.contract import Journal
from antiphon.ops.counts import Counts
from antiphon.ops.feed.views import FeedViews
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing.contract import Tracing
from antiphon.ports import Bus, Clock, Ids, Toolbox
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.compaction.standalone import StandaloneCompaction
from antiphon.runs.conversation_runs import ConversationRuns
from antiphon.runs.counting import count_end
from antiphon.runs.directory import RunDirectory
from antiphon.runs.elsewhere.answering import Answering
from antiphon.runs.elsewhere.company import Company
from antiphon.runs.elsewhere.conversations import ConversationNews
from antiphon.runs.elsewhere.reach import Reach
from antiphon.runs.elsewhere.remote_runs import RemoteRuns
from antiphon.runs.elsewhere.verbs import Here
from antiphon.runs.elsewhere.visitors import Visitors
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.in_process import InProcess
from antiphon.runs.janitor import Janitor
from antiphon.runs.loop.ending import RunEnder
from antiphon.runs.loop.loop import RunLoop
from antiphon.runs.loop.parts import Leaving, LoopParts
from antiphon.runs.loop.steps import checkpoint
from antiphon.runs.named_conversations import NamedConversations
from antiphon.runs.recovery.adopting import Adopter
from antiphon.runs.recovery.ownership import Ownership
from antiphon.runs.recovery.recovery import Recovery
from antiphon.runs.recovery.resuming import Resumer
from antiphon.runs.run import Followed
from antiphon.runs.service import DELETED, RunService
from antiphon.runs.start.assigning import Assigner
from antiphon.runs.start.configured import check_configured
from antiphon.runs.start.idempotency import IdempotencyKeys
from antiphon.runs.start.inputs import InputReader
from antiphon.runs.start.opening import RunOpener
from antiphon.runs.start.pipeline import Pipeline
from antiphon.runs.start.reading import CreateReader
from antiphon.runs.start.starter import RunStarter
from antiphon.runs.steering.following import Successors
from antiphon.runs.steering.pending import PendingSteers
from antiphon.runs.steering.steering import Steering
from antiphon.runs.supervisor import Supervisor
from antiphon.runs.token_counting import TokenCounting
from antiphon.settings import Settings
from antiphon.store.agents import StoredAgents
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import Writer
from antiphon.upstream.router import UpstreamRouter


class Engine:
    """The engine of one process. What it is given stays its owner's to start and to close."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        ids: Ids,
        reader: ResponseReader,
        writer: Writer,
        journal: Journal,
        bus: Bus,
        registry: RunRegistry,
        router: UpstreamRouter,
        toolbox: Toolbox,
        sealer: Sealer,
        hooks: OperatorHooks,
        accounts: Accounts,
        feeds: FeedViews,
        tracing: Tracing | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.ids = ids
        self.journal = journal
        self.bus = bus
        self.registry = registry
        self.feeds = feeds
        self._reader = reader
        self._writer = writer
        self.hooks = hooks
        self.accounts = accounts
        self.router = router
        self.counts = Counts()
        self.tracing = tracing
        self.remote = RemoteRuns(journal, bus, reader, registry, clock, settings.journal)
        self.directory = RunDirectory(reader, journal, self.remote, settings.limits.max_message_bytes)
        self._conversing()
        self.held = HeldRuns(registry, self.directory, journal, reader, writer, clock, settings)
        compactor, pending_steers = Compactor(sealer), PendingSteers()
        ender = RunEnder(journal, registry, clock, settings)
        self._executing(toolbox, compactor, ender)
        self._preparing(router, toolbox, sealer)
        self.opener, keys = RunOpener(settings, journal, clock, ids), IdempotencyKeys(reader, bus, clock)
        starter = self._starter(keys, pending_steers)
        self.service = self._service(starter, keys)
        self.compaction = StandaloneCompaction(starter, compactor, accounts.meter, clock, ids)
        self.token_counting = TokenCounting(starter, toolbox, ids)
        successors = Successors(reader, writer, bus, self.service)
        self.steering = self._steering(pending_steers, ender, successors)
        self.steering.on_waiting = lambda run: journal.checkpoint(
            run.log, checkpoint(self.parts, run, waiting=True)
        )
        self._reaching()
        self.in_process = InProcess(self.service, self.directory, self.reach, self.current)
        self.pipeline.ask = self.in_process.run
        self.resumer = self._resumer()
        self._taking_over(successors)
        self.janitor = Janitor(writer, registry, keys, clock, settings.journal.retention_s)
        registry.on_start, registry.on_change = self._started, self._changed
        feeds.quota = accounts.limits.quota
        feeds.moving = self._progress

    def _conversing(self) -> None:
        """Conversations: those that clients make, and the runs of any."""
        reader, private_urls = self._reader, self.settings.refuses_private_urls
        self.named_conversations = NamedConversations(
            reader, self._writer, self.directory, self.clock, self.ids, refuses_private_urls=private_urls
        )
        self.conversation_runs = ConversationRuns(reader, self.directory, self.named_conversations)
        self.conversations = ConversationNews(self.journal, self.bus, reader)

    def _executing(self, toolbox: Toolbox, compactor: Compactor, ender: RunEnder) -> None:
        """What executes runs."""
        self.parts = LoopParts(
            journal=self.journal,
            registry=self.registry,
            toolbox=toolbox,
            held=self.held,
            compactor=compactor,
            ender=ender,
            loop=self.settings.loop,
            tools=self.settings.tools,
            leaving=Leaving(),
            loop_limits=self.settings.loop.detection.limits if self.settings.loop.detection.enabled else None,
            observers=self.hooks.observers,
            context=self.hooks.context,
            clock=self.clock,
            counts=self.counts,
            tracing=self.tracing,
            meter=self.accounts.meter,
        )
        self._loop = RunLoop(self.parts)
        self.supervisor = Supervisor(self._loop, ender, self.directory, self.settings.store.grace_s)
        self.supervisor.on_ended = lambda run: count_end(self.counts, run)
        self.held.stop = self.supervisor.stop

    def _preparing(self, router: UpstreamRouter, toolbox: Toolbox, sealer: Sealer) -> None:
        """What decides on agents, models and tools. Raises StartupError for agents that cannot work."""
        settings, hooks, accounts = self.settings, self.hooks, self.accounts
        self.agents = Agents(settings.agent, StoredAgents(self._reader))
        self.models = ModelPolicy(settings.tenant)
        self.agent_keeper = AgentKeeper(
            self.agents, self.models, hooks.context, accounts.admission, accounts.audit, self.clock
        )
        check_configured(settings, self.agents.configured(), router, hooks.context, toolbox)
        self._assigner = Assigner(
            agents=self.agents,
            policy=self.models,
            router=router,
            toolbox=toolbox,
            tenants=settings.tenant,
            default_model=settings.default_model,
        )
        reader = CreateReader(
            self.directory,
            self.named_conversations,
            InputReader(self.directory, sealer),
            toolbox,
            refuses_private_urls=settings.refuses_private_urls,
        )
        self.pipeline = Pipeline(reader, self._assigner, hooks.middlewares, hooks.context, hooks.skills)

    def _starter(self, keys: IdempotencyKeys, pending: PendingSteers) -> RunStarter:
        starter = RunStarter(
            admission=self.accounts.admission,
            pipeline=self.pipeline,
            opener=self.opener,
            journal=self.journal,
            bus=self.bus,
            registry=self.registry,
            directory=self.directory,
            supervisor=self.supervisor,
            keys=keys,
            pending_steers=pending,
            conversations=self.named_conversations,
        )
        starter.on_refused = lambda code: self.counts.refuse("create", code)
        return starter

    def _service(self, starter: RunStarter, keys: IdempotencyKeys) -> RunService:
        return RunService(
            starter=starter,
            journal=self.journal,
            bus=self.bus,
            directory=self.directory,
            supervisor=self.supervisor,
            keys=keys,
            writer=self._writer,
            clock=self.clock,
            ids=self.ids,
        )

    def _steering(self, pending: PendingSteers, ender: RunEnder, successors: Successors) -> Steering:
        return Steering(
            service=self.service,
            pending=pending,
            journal=self.journal,
            successors=successors,
            directory=self.directory,
            supervisor=self.supervisor,
            registry=self.registry,
            ender=ender,
            ids=self.ids,
            refuses_private_urls=self.settings.refuses_private_urls,
        )

    def _reaching(self) -> None:
        """Runs of other nodes: what clients here do to them, and what their clients do to ours."""
        own, bus, journal = self.directory.own, self.bus, self.journal
        here = Here(self.service, self.held, self.steering, self.directory, journal)
        visitors = Visitors(own, self.supervisor, self.held)
        self.company = Company(bus, journal, own, self.supervisor, self.held, visitors)
        self.reach = Reach(bus, here, self.company, self.ids)
        self.answering = Answering(bus, here, visitors, self.reach.settled)
        bus.on_message = self.answering.answer
        self.directory.response_of = self.reach.response_of

    def _resumer(self) -> Resumer:
        resumer = Resumer(
            reader=self._reader,
            journal=self.journal,
            directory=self.directory,
            registry=self.registry,
            assigner=self._assigner,
            admission=self.accounts.admission,
            opener=self.opener,
            held=self.held,
            supervisor=self.supervisor,
        )
        resumer.on_resumed = lambda run: self.company.owner_changed(run.id)
        return resumer

    def _taking_over(self, successors: Successors) -> None:
        """Runs without an owner, and runs of ours that become another's."""
        recovery = Recovery(
            self.journal,
            self._reader,
            self._writer,
            self.accounts.usage,
            self.accounts.admission,
            self.resumer,
            self.settings,
            self.clock,
            self.ids,
        )
        recovery.tell = self.registry.tell
        self.adopter = Adopter(
            bus=self.bus,
            journal=self.journal,
            reader=self._reader,
            recovery=recovery,
            successors=successors,
            directory=self.directory,
            remote=self.remote,
            registry=self.registry,
            clock=self.clock,
            lease_s=self.settings.bus.lease_s,
        )
        self.ownership = Ownership(
            bus=self.bus,
            journal=self.journal,
            writer=self._writer,
            directory=self.directory,
            remote=self.remote,
            registry=self.registry,
            supervisor=self.supervisor,
            leaving=self.parts.leaving,
        )
        self.ownership.owner_changed = self.company.owner_changed
        self.ownership.say_again = self.company.say_again
        self.adopter.on_sweep = self.conversations.look_again
        self._loop.on_suspended = self.ownership.suspended
        self.bus.on_nodes_gone = self._nodes_gone
        self.bus.on_reconnected = self._reconnected

    def current(self, run: Followed) -> Followed:
        """A run that is followed, as it is now: it may have come to this node, or gone to another one."""
        return self.directory.own(run.id) or self.remote.get(run.id) or run

    def _progress(self) -> Iterator[Progress]:
        """How far the runs of this node that go on have come."""
        for run in self.directory.live_runs():
            if not run.log.ended and not run.request.is_warm_up:
                tokens = run.state.usage["output_tokens"] if run.state.usage is not None else None
                yield Progress(run.state.tenant, run.id, run.log.shown, tokens)

    # What the parts tell each other

    async def _nodes_gone(self, nodes: frozenset[str]) -> None:
        for node in nodes:
            self.company.node_gone(node)
        await self.adopter.nodes_gone(nodes)

    def _reconnected(self) -> None:
        self.remote.look_again()
        self.company.say_again()
        self.feeds.look_again()
        self.directory.forget_turns()
        self.conversations.look_again_soon()

    def _started(self, state: RunState) -> None:
        run = self.directory.own(state.response_id)
        if run is not None:
            self.journal.publish_state(run.log)
            self.conversations.began(run)

    def _changed(self, state: RunState) -> None:
        run = self.directory.own(state.response_id)
        if run is not None:
            self.journal.publish_state(run.log)

    # Life

    async def recover(self) -> None:
        """Take care of what was left behind, and of what will be. Raises StorageError."""
        if self.bus.alone:
            await self.adopter.recover()
            return
        await self.bus.subscribe(DELETED, lambda payload: self.service.deleted(payload.decode()))
        await self.adopter.start()
        self.remote.start()

    async def aclose(self) -> None:
        """Stop looking after runs of other nodes."""
        self.ownership.close()
        await self.adopter.stop()
        await self.company.aclose()
        await self.remote.stop()
