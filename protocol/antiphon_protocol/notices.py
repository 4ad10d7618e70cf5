"""Standard frames that are not in the log: keepalive, and the answers to steering and injection (PROTOCOL 7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from antiphon_protocol.base import Count, Id, StreamId, Wire, opt
from antiphon_protocol.held import CallConflict


class Notice(Wire):
    """A frame beside the log. Its number is the last logged one of its run, 0 if the run is unknown."""

    sequence_number: Count
    stream_id: StreamId | None = opt("The run's lane on this connection, if it has one and it is named.")


class Keepalive(Notice):
    """The run is alive and has nothing to say."""

    type: Literal["keepalive"]


class Steer(Wire):
    """A steering message that was taken."""

    id: Id
    previous_response_id: Id


class FailedSteer(Wire):
    """A steering message handed back."""

    previous_response_id: Id
    input: str | list[Any]
    id: Id | None = opt()


class SteerError(Wire):
    """Why it was handed back."""

    type: Literal["invalid_request_error"]
    code: Id
    message: str


class CallStub(Wire):
    """A call whose output is waited for."""

    type: Literal[
        "function_call_output",
        "custom_tool_call_output",
        "computer_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "local_shell_call_output",
    ]
    call_id: Id
    name: str | None = opt("Of a function.")


class ToolSearchStub(Wire):
    """A tool search the client has to do."""

    type: Literal["tool_search_output"]
    call_id: Id
    execution: Literal["client"]


class ApprovalStub(Wire):
    """An approval that is waited for."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id


class SteerAccepted(Notice):
    """The steering message was taken."""

    type: Literal["response.steer.accepted"]
    steer: Steer


class SteerPending(Notice):
    """The steering message waits for outputs of the client."""

    type: Literal["response.steer.pending"]
    reason: Id
    required_input: list[Annotated[CallStub | ToolSearchStub | ApprovalStub, Field(discriminator="type")]]
    steer: Steer


class SteerFailed(Notice):
    """The steering message was not taken; here it is back."""

    type: Literal["response.steer.failed"]
    error: SteerError
    steer: FailedSteer


class InjectError(CallConflict):
    """Why outputs were handed back. Fields that belong to one code stand beside `code`."""

    code: Id
    message: str
    param: str | None = opt("The field at fault.")


class InjectCreated(Notice):
    """The injected outputs were taken."""

    type: Literal["response.inject.created"]
    response_id: Id
    duplicate: Literal[True] | None = opt("They had been taken from this sender before.")


class InjectFailed(Notice):
    """The injected outputs were not taken; here they are back, exactly as they came."""

    type: Literal["response.inject.failed"]
    response_id: Id
    input: list[Any]
    error: InjectError
