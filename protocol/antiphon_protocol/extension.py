"""The `antiphon:` frames (PROTOCOL 10): commands of the client, replies and pushes of the server."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, model_validator

from antiphon_protocol.base import Command, CommandId, Count, FieldFault, Id, StreamId, Wire, opt, type_names
from antiphon_protocol.feed import (
    FeedBookmark,
    FeedDelta,
    FeedItem,
    FeedProgress,
    FeedReset,
    FeedSubscribe,
    FeedUnsubscribe,
)
from antiphon_protocol.held import CallConflict, Lease
from antiphon_protocol.response import Response
from antiphon_protocol.runstate import RunState

PROTOCOL_VERSION = 1


class ClientInfo(Wire):
    """Who the client is. `instance_id` stays the same over reconnects of one installation or tab."""

    name: Id
    version: str | None = opt()
    instance_id: Id | None = opt()


Labels = Annotated[dict[str, str], Field(max_length=16)]


class DeclaredTool(Wire):
    """A tool the client can run: it is asked to answer held calls of it. A label the run has too must be equal."""

    name: Id
    labels: Labels | None = opt()


class Hello(Command):
    """The client knows the extension. First of all other commands but auth and ping."""

    type: Literal["antiphon:hello"] = "antiphon:hello"
    protocol: int
    client: ClientInfo
    tools: list[DeclaredTool] | None = opt(max_length=1024)
    labels: Labels | None = opt("Of the connection: one the run has too must be equal, or it is not asked.")
    token: Annotated[str, Field(min_length=1)] | None = opt("A key or signed token, as in `antiphon:auth`.")


def _either(
    one: str, other: str, *, with_one: tuple[str, ...] = (), with_other: tuple[str, ...] = ()
) -> ConfigDict:
    """Configuration of a frame that has one of two fields, and with each some more."""
    shapes: list[Any] = [
        {"required": [one, *with_one], "not": {"required": [other]}},
        {"required": [other, *with_other], "not": {"required": [one]}},
    ]
    return ConfigDict(json_schema_extra={"oneOf": shapes})


_Targeted = TypeVar("_Targeted", bound="Attach | Detach | Attached")


def _one_target(frame: _Targeted) -> _Targeted:
    if (frame.response_id is None) == (frame.conversation_id is None):
        raise FieldFault("response_id", "give either this or conversation_id")
    return frame


class Attach(Command):
    """Give me the events of this run after a position, or all runs of this conversation from their beginning."""

    model_config = _either("response_id", "conversation_id")

    type: Literal["antiphon:attach"] = "antiphon:attach"
    response_id: Id | None = opt()
    conversation_id: Id | None = opt("Instead of `response_id`, and without `after`, `epoch` and `stream_id`.")
    after: Count | Literal["start", "now"] = Field(
        default="start", description="A number: events after it. `start`: all. `now`: only coming ones."
    )
    epoch: Id | None = opt("The epoch the number belongs to.")
    stream_id: StreamId | None = opt("A lane not in use; absent: the server picks `att.<n>`.")
    traceparent: str | None = opt("The span of the caller (W3C Trace Context); the server's own links to the run.")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.conversation_id is not None and (self.after != "start" or self.epoch or self.stream_id):
            raise FieldFault("conversation_id", "its runs come from their start, on lanes the server picks")
        return _one_target(self)


class Detach(Command):
    """No more events of this run, or of the runs of this conversation. No run is touched."""

    model_config = _either("response_id", "conversation_id")

    type: Literal["antiphon:detach"] = "antiphon:detach"
    response_id: Id | None = opt()
    conversation_id: Id | None = opt()

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        return _one_target(self)


class Cancel(Command):
    """End this run."""

    type: Literal["antiphon:cancel"] = "antiphon:cancel"
    response_id: Id
    reason: str | None = opt("For the operator's log.")


class ClaimCall(Command):
    """I work on this held call: nobody else may answer it for a while."""

    type: Literal["antiphon:claim"] = "antiphon:claim"
    response_id: Id
    call_id: Id
    lease_ms: Lease | None = opt("Absent: `claim_lease_ms` of the welcome.")
    fence: Count | None = opt("Of the last claim known to this client: refused if the call was claimed since.")


class RenewClaim(Command):
    """I still work on it."""

    type: Literal["antiphon:renew"] = "antiphon:renew"
    response_id: Id
    call_id: Id
    fence: Count
    lease_ms: Lease | None = opt()


class ReleaseClaim(Command):
    """I do not work on it any more, and it is not done."""

    type: Literal["antiphon:release"] = "antiphon:release"
    response_id: Id
    call_id: Id
    fence: Count


class ShowPresence(Command):
    """What the people at this client do. Exactly one of `response_id` and `conversation_id`."""

    type: Literal["antiphon:presence"] = "antiphon:presence"
    response_id: Id | None = opt()
    conversation_id: Id | None = opt("Every run of it that this connection watches.")
    state: Literal["watching", "typing", "executing"]
    label: Annotated[str, StringConstraints(max_length=128)] | None = opt("Shown to the others.")


class Auth(Command):
    """Who I am: as a first frame in place of a header, later with newer credentials of the same caller."""

    model_config = _either("token", "ticket")

    type: Literal["antiphon:auth"] = "antiphon:auth"
    token: Annotated[str, Field(min_length=1)] | None = opt("A key or signed token.")
    ticket: Annotated[str, Field(min_length=1)] | None = opt("From `POST /v1/tickets`, of this page's origin.")

    @model_validator(mode="after")
    def _one(self) -> Auth:
        if (self.token is None) == (self.ticket is None):
            raise FieldFault("token", "one of token and ticket is needed")
        return self


class Ping(Command):
    """Are you there?"""

    type: Literal["antiphon:ping"] = "antiphon:ping"


class Reply(Wire):
    """The one answer to a command."""

    id: CommandId


class ServerInfo(Wire):
    """Who answers."""

    name: Id
    version: Id


class Welcome(Reply):
    """Answer to hello. From now on the server may push `antiphon:` frames."""

    type: Literal["antiphon:welcome"] = "antiphon:welcome"
    server: ServerInfo
    protocol: int
    connection_id: Id
    max_message_bytes: Count
    resume_window_s: float = Field(ge=0, description="How long an ended, stored run can be attached to.")
    connection_expires_at: float = Field(description="Unix seconds at which the connection gets too old.")
    features: list[Id]
    claim_lease_ms: Count = Field(description="How long a claim lasts unless it is renewed.")
    token_expires_at: float | None = opt("Unix seconds until which the credentials count; absent: for ever.")


Mode = Literal["replay", "live", "snapshot", "ended"]


class Attached(Reply):
    """Answer to attach. The events follow on lane `stream_id`, those of a conversation's runs each on its own."""

    model_config = _either(
        "response_id",
        "conversation_id",
        with_one=("stream_id", "epoch", "head", "mode", "recovered", "state"),
        with_other=("runs",),
    )

    type: Literal["antiphon:attached"] = "antiphon:attached"
    response_id: Id | None = opt()
    stream_id: StreamId | None = opt()
    epoch: Id | None = opt()
    head: Count | None = opt("Last number of the log at this moment.")
    mode: Mode | None = opt()
    recovered: bool | None = opt("Whether every event after the cursor will have been given.")
    reason: Id | None = opt("Why not, with `snapshot`.")
    state: RunState | None = opt()
    response: Response | None = opt("With `snapshot` and `ended`: the response as of `head`.")
    conversation_id: Id | None = opt()
    runs: list[RunState] | None = opt("Of a conversation: its live runs, and the newest one that has ended.")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        needed = (
            ("runs",) if self.response_id is None else ("stream_id", "epoch", "head", "mode", "recovered", "state")
        )
        if any(getattr(self, name) is None for name in needed):
            raise FieldFault(needed[0], f"needs {', '.join(needed)}")
        return _one_target(self)


class RunAttached(Wire):
    """A run of a conversation, or the successor of a steered run, comes on this lane, from its first event on."""

    type: Literal["antiphon:run_attached"] = "antiphon:run_attached"
    response_id: Id
    stream_id: StreamId
    epoch: Id
    head: Count = Field(description="Last number of the log at this moment.")
    mode: Mode
    recovered: bool = Field(description="False if the first events are gone.")
    reason: Id | None = opt("Why, with `snapshot`.")
    response: Response | None = opt("With `snapshot` and `ended`: the response as of `head`.")


class Ok(Reply):
    """Done."""

    type: Literal["antiphon:ok"] = "antiphon:ok"
    result: Literal["accepted", "already_terminal"] | None = opt("Of a cancel.")
    fence: Count | None = opt("Of a claim: rises with each claim of the call.")
    expires_at: float | None = opt("Of a claim, Unix seconds.")
    token_expires_at: float | None = opt("Of an auth: Unix seconds until which the credentials count.")


class Pong(Reply):
    """I am."""

    type: Literal["antiphon:pong"] = "antiphon:pong"


class ExtensionError(CallConflict):
    """The command was refused. Fields that belong to one code stand beside `code`."""

    type: Literal["antiphon:error"] = "antiphon:error"
    id: CommandId | None = Field(description="`null` only if the command had no usable id.")
    code: Id
    message: str
    retryable: bool
    retry_after_ms: Count | None = opt()
    param: str | None = opt("The field at fault.")
    epoch: Id | None = opt("With `epoch_changed`: the current epoch of the run.")
    fork: Count | None = opt("With `epoch_changed`: the first number of the epoch that followed yours.")
    head: Count | None = opt("With `cursor_in_future`: the last number of the run.")


class CaughtUp(Wire):
    """Everything that was in the log at the attach has been sent."""

    type: Literal["antiphon:caught_up"] = "antiphon:caught_up"
    response_id: Id
    stream_id: StreamId
    head: Count


class Detached(Wire):
    """The attachment is over and its lane free."""

    type: Literal["antiphon:detached"] = "antiphon:detached"
    response_id: Id
    stream_id: StreamId
    reason: Literal["ended", "epoch_changed", "cursor_expired"]


class Run(Wire):
    """The state of a run this connection watches has changed. The latest is whole; earlier ones may be skipped."""

    type: Literal["antiphon:run"] = "antiphon:run"
    response_id: Id
    state: RunState


class Goaway(Wire):
    """The server will close this connection. Come back at a random moment of the next `spread_ms`.

    `token_expiring`: unless `antiphon:auth` brings newer credentials before.
    """

    type: Literal["antiphon:goaway"] = "antiphon:goaway"
    reason: Literal["draining", "connection_age", "token_expiring"]
    deadline_ms: Count = Field(description="Milliseconds until the close.")
    spread_ms: Count


AnyFeedEvent = FeedItem | FeedBookmark | FeedDelta | FeedReset | FeedProgress
AnyCommand = (
    Hello
    | Auth
    | Attach
    | Detach
    | Cancel
    | ClaimCall
    | RenewClaim
    | ReleaseClaim
    | ShowPresence
    | FeedSubscribe
    | FeedUnsubscribe
    | Ping
)
AnyExtensionEvent = (
    Welcome
    | Attached
    | RunAttached
    | Ok
    | Pong
    | ExtensionError
    | CaughtUp
    | Detached
    | Run
    | Goaway
    | AnyFeedEvent
)

ExtensionCommand = Annotated[AnyCommand, Field(discriminator="type")]
ExtensionEvent = Annotated[AnyExtensionEvent, Field(discriminator="type")]
ExtensionFrame = Annotated[AnyCommand | AnyExtensionEvent, Field(discriminator="type")]

COMMAND_TYPES: frozenset[str] = type_names(ExtensionCommand)
EXTENSION_EVENT_TYPES: frozenset[str] = type_names(ExtensionEvent)

extension_command: TypeAdapter[AnyCommand] = TypeAdapter(ExtensionCommand)
extension_event: TypeAdapter[AnyExtensionEvent] = TypeAdapter(ExtensionEvent)
