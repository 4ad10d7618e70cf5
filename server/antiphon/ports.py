"""Every seam of the server on one page. Adapters implement these; only `app.py` names the adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from antiphon.core.principal import Principal
from antiphon.core.tool_scope import EVERYTHING, ToolScope


class Clock(Protocol):
    """Time from outside, so that a test can turn it."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class Ids(Protocol):
    """Where ids come from."""

    def mint(self, prefix: str) -> str:
        """A new id `<prefix>_<32 hex of a UUIDv7>`, e.g. prefix `resp`, `msg`, `fc`, `call`."""
        ...

    def token(self) -> str:
        """A short random token, 16 hex characters: epochs, connection ids."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, in the words of the Responses API.

    model: the name the upstream knows. body: the complete JSON body as the upstream takes it
    (`stream` true, `store` false, history already in `input`). caller_token: the caller's own upstream
    credential, or None. on_degraded: told once, before any output, that another model answers: the one asked for
    and the one that does, by the names clients use. None forbids that another model answers. trace: headers that
    tie the server's work to the trace of the run; none without tracing.
    """

    run_id: str
    model: str
    body: bytes
    caller_token: str | None = None
    on_degraded: Callable[[str, str], None] | None = None
    trace: Mapping[str, str] = field(default_factory=dict)


class Upstream(Protocol):
    """A source of model events: a server over HTTP, or a model built in.

    Events are JSON objects as bytes, shaped as Responses stream events; their ids and numbers are the
    upstream's own and will be replaced. Several events that are there at once come in one batch.
    tools: names of tools of the server that its models are offered without being asked for.
    """

    name: str
    tools: tuple[str, ...]

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """Run the call. Closing the iterator closes the upstream connection at once.

        A normal end without a terminal event is legal here; the caller judges it.
        Raises UpstreamError.
        """
        ...

    async def models(self) -> Sequence[str]:
        """Names of the models it serves. Raises UpstreamError."""
        ...

    async def input_tokens(self, call: ModelCall) -> int | None:
        """How many tokens the call would be read as; None if it cannot say. Raises UpstreamError."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool of the server as the model and the clients get to know it.

    name: its own name, unique within its `server_label`. parameters: JSON Schema of its arguments (an object).
    server_label: of the MCP server; `antiphon` for `http` and `python` tools. item_type: how its calls appear in
    the output. side_effects: a call must never be made twice. needs_approval: a person is asked before each call.
    max_output_bytes: of its text in UTF-8; more is an error.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    server_label: str = "antiphon"
    item_type: Literal["mcp_call", "web_search_call"] = "mcp_call"
    side_effects: bool = True
    needs_approval: bool = False
    timeout_s: float = 30.0
    max_output_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a call is made. trace: as in `ModelCall`."""

    tenant: str
    principal: str
    run_id: str
    call_id: str
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call gave. text: for the model. action: of a `web_search_call` item (`{"type": "search", ...}`)."""

    text: str
    action: Mapping[str, Any] | None = None


class Tool(Protocol):
    """Something the server can do for a model."""

    spec: ToolSpec

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Make one call; `arguments` fit the schema. Cancelling it stops it.

        Raises ToolError with a sentence the model can use.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of one server label, or why they could not be listed.

    listed: the label was asked for by a `mcp` tool of the request, so that clients get an `mcp_list_tools` item.
    """

    server_label: str
    tools: Sequence[Tool] = ()
    error: str | None = None
    listed: bool = True


class OpenTools(Protocol):
    """The server's tools of one run, open until `aclose`."""

    lists: Sequence[ToolList]

    async def aclose(self) -> None:
        """Let go of what the run's own declarations opened."""
        ...


class Toolbox(Protocol):
    """Every tool the server can execute."""

    def check(self, declared: Sequence[Mapping[str, Any]], scope: ToolScope = EVERYTHING) -> None:
        """Refuse `mcp` and `web_search` tools of a request that can never work. Raises RequestError.

        scope: what its tenant has; all else is refused like what does not exist.
        """
        ...

    def knows(self, name: str) -> bool:
        """Whether a configured or built-in tool, or an MCP server of the configuration, has this name."""
        ...

    @property
    def offers_unasked(self) -> bool:
        """Whether some tools are offered to every run."""
        ...

    def owns_web_search(self) -> bool:
        """Whether a search provider is configured."""
        ...

    async def open(
        self,
        declared: Sequence[Mapping[str, Any]],
        tenant: str,
        always: Sequence[str],
        scope: ToolScope = EVERYTHING,
    ) -> OpenTools:
        """The tools a run may use. declared: the request's tools of types `mcp` and, if owned here, `web_search*`.

        always: names of configured or built-in tools that are offered without being asked for, beside those
        configured so. scope: what the run may have at all. Never raises for a server that cannot be listed: its
        list holds the error.
        """
        ...

    async def aclose(self) -> None:
        """End the MCP servers that all runs share, and let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller shows. bearer: a key or a signed token. ticket: of a browser's socket. origin: the page's, in
    lower case, None where no page sends this. address: of the client, as failures are counted."""

    bearer: str | None = None
    ticket: str | None = None
    origin: str | None = None
    address: str = ""


class Authenticator(Protocol):
    """Turns credentials into a principal, and knows how long they count.

    required: whether anybody has to show credentials.
    """

    required: bool

    async def authenticate(self, credentials: Credentials) -> Principal:
        """Raises Unauthorized, StorageError, RequestError `rate_limited`, AntiphonError `identity_unavailable`."""
        ...

    def check(self, principal: Principal) -> None:
        """Whether its credential still counts, from memory. Raises Unauthorized."""
        ...

    def watch(
        self, principal: Principal, on_over: Callable[[Literal["expired", "revoked"]], None]
    ) -> Callable[[], None]:
        """Be told once, when its credential counts no more. Gives what ends the watch."""
        ...

    async def issue_ticket(self, principal: Principal, origin: str | None) -> tuple[str, float]:
        """A ticket for one socket of pages of this origin, and the Unix time until which it can be used."""
        ...


class Bus(Protocol):
    """What the nodes of one cluster share while runs are live. On one machine there is one node, alone.

    node: this node's id, new at each start. alone: no other node can exist. healthy: the last exchange worked.
    Every method that waits raises BusError when the bus does not answer; none of them waits longer than the
    command timeout of its settings unless it says so.

    The lease says that this node is alive. It is renewed by itself, by the clock of the bus. `held` is False once
    it has not been confirmed for 80 % of its length; then this node delivers, writes and executes nothing.
    """

    node: str
    alone: bool

    @property
    def healthy(self) -> bool: ...

    @property
    def held(self) -> bool:
        """Whether this node may act. Cheap: asked for every batch of events."""
        ...

    @property
    def lease_left_s(self) -> float | None:
        """Seconds until this node counts as gone unless it renews its lease; None where there is no lease."""
        ...

    on_suspended: Callable[[], None]
    """The lease was not confirmed in time. Called once per loss, at the latest when `held` is first seen False."""

    on_resumed: Callable[[], Awaitable[None]]
    """The lease is confirmed again. `held` stays False until this has returned: take back what was owned in it.
    (What it does itself is let through: see `Journal.retake`.)"""

    on_nodes_gone: Callable[[frozenset[str]], Awaitable[None]]
    """Called about five times per lease with the registered nodes whose lease has run out, until `forget_node`."""

    on_message: Callable[[str, str, bytes], Awaitable[bytes]]
    """(node it came from, kind, payload) -> answer. Each message is handled once, in a task of its own; those of
    one node are begun in the order they were sent."""

    on_reconnected: Callable[[], None]
    """The subscriber was cut off and is back: hints may have been missed."""

    async def start(self) -> None:
        """Connect, check versions and agreement with the other nodes, take the lease. Raises StartupError."""
        ...

    async def stop(self) -> None:
        """Give the lease up and disconnect. Never raises."""
        ...

    async def alive(self) -> frozenset[str]:
        """The nodes whose lease is valid, this one included while it is."""
        ...

    async def forget_node(self, node: str) -> None:
        """Nothing is left of a dead node."""
        ...

    async def ask(self, node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
        """Send a message and wait for the answer.

        Raises NodeGone as soon as the node's lease is seen to have run out, BusError after `timeout_s`. A message
        sent twice by a retry is handled once.
        """
        ...

    def tell(self, node: str, kind: str, payload: bytes) -> None:
        """Send a message and want no answer. Lost if the node dies or the bus is away."""
        ...

    async def subscribe(self, channel: str, listener: Callable[[bytes], None]) -> None:
        """Hear what is published on a channel. Returns when the subscription is acknowledged."""
        ...

    async def unsubscribe(self, channel: str, listener: Callable[[bytes], None]) -> None:
        """Hear it no more; the last listener ends the subscription."""
        ...

    async def publish(self, channel: str, payload: bytes) -> None:
        """Tell all nodes; a hint, which may be lost."""
        ...

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float) -> bytes | None:
        """Keep a value for all nodes for a time; gives the one that is there already, None if this one counts."""
        ...

    async def remove(self, key: str, value: bytes) -> None:
        """Forget a value, if it is still this one."""
        ...
