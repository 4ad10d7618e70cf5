"""The `antiphon:` frames (PROTOCOL 10): commands of the client, replies and pushes of the server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from antiphon_protocol.base import Count, Id, StreamId, Wire, opt, type_names
from antiphon_protocol.response import Response
from antiphon_protocol.runstate import RunState

PROTOCOL_VERSION = 1

CommandId = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""Chosen by the client; the one reply to the command echoes it."""


class Command(Wire):
    """What a client sends. Unknown fields are ignored."""

    id: CommandId


class ClientInfo(Wire):
    """Who the client is. `instance_id` stays the same over reconnects of one installation or tab."""

    name: Id
    version: str | None = opt()
    instance_id: Id | None = opt()


class DeclaredTool(Wire):
    """A tool the client can run. Taken and kept, without effect in this release."""

    name: Id
    labels: dict[str, str] | None = opt()


class Hello(Command):
    """The client knows the extension. First of all other commands but ping."""

    type: Literal["antiphon:hello"] = "antiphon:hello"
    protocol: int
    client: ClientInfo
    tools: list[DeclaredTool] | None = opt()
    labels: dict[str, str] | None = opt()


class Attach(Command):
    """Give me the events of this run after a position."""

    type: Literal["antiphon:attach"] = "antiphon:attach"
    response_id: Id
    after: Count | Literal["start", "now"] = Field(
        default="start", description="A number: events after it. `start`: all. `now`: only coming ones."
    )
    epoch: Id | None = opt("The epoch the number belongs to.")
    stream_id: StreamId | None = opt("A lane not in use; absent: the server picks `att.<n>`.")


class Detach(Command):
    """No more events of this run. The run is not touched."""

    type: Literal["antiphon:detach"] = "antiphon:detach"
    response_id: Id


class Cancel(Command):
    """End this run."""

    type: Literal["antiphon:cancel"] = "antiphon:cancel"
    response_id: Id
    reason: str | None = opt("For the operator's log.")


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
    claim_lease_ms: Count | None = opt("Reserved.")
    token_expires_at: float | None = opt("Reserved.")


class Attached(Reply):
    """Answer to attach. The events follow on lane `stream_id`."""

    type: Literal["antiphon:attached"] = "antiphon:attached"
    response_id: Id
    stream_id: StreamId
    epoch: Id
    head: Count = Field(description="Last number of the log at this moment.")
    mode: Literal["replay", "live", "snapshot", "ended"]
    recovered: bool = Field(description="Whether every event after the cursor will have been given.")
    reason: Id | None = opt("Why not, with `snapshot`.")
    state: RunState
    response: Response | None = opt("With `snapshot` and `ended`: the response as of `head`.")


class Ok(Reply):
    """Done."""

    type: Literal["antiphon:ok"] = "antiphon:ok"
    result: Literal["accepted", "already_terminal"] | None = opt("Of a cancel.")


class Pong(Reply):
    """I am."""

    type: Literal["antiphon:pong"] = "antiphon:pong"


class ExtensionError(Wire):
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
    """The server will close this connection. Come back at a random moment of the next `spread_ms`."""

    type: Literal["antiphon:goaway"] = "antiphon:goaway"
    reason: Literal["draining", "connection_age"]
    deadline_ms: Count = Field(description="Milliseconds until the close.")
    spread_ms: Count


AnyCommand = Hello | Attach | Detach | Cancel | Ping
AnyExtensionEvent = Welcome | Attached | Ok | Pong | ExtensionError | CaughtUp | Detached | Run | Goaway

ExtensionCommand = Annotated[AnyCommand, Field(discriminator="type")]
ExtensionEvent = Annotated[AnyExtensionEvent, Field(discriminator="type")]
ExtensionFrame = Annotated[AnyCommand | AnyExtensionEvent, Field(discriminator="type")]

COMMAND_TYPES: frozenset[str] = type_names(ExtensionCommand)
EXTENSION_EVENT_TYPES: frozenset[str] = type_names(ExtensionEvent)

extension_command: TypeAdapter[AnyCommand] = TypeAdapter(ExtensionCommand)
extension_event: TypeAdapter[AnyExtensionEvent] = TypeAdapter(ExtensionEvent)

RESERVED_COMMANDS = frozenset(
    {
        "antiphon:auth",
        "antiphon:claim",
        "antiphon:renew",
        "antiphon:release",
        "antiphon:presence",
        "antiphon:feed.subscribe",
        "antiphon:feed.unsubscribe",
    }
)
"""Names later releases will give a meaning (PROTOCOL 15). Until then they are answered `unknown_command`."""
