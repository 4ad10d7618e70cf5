"""Output items of shells and patches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon_protocol.base import Count, Id, JsonObject, Wire, opt

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class ExecAction(Wire):
    """One command with its surroundings."""

    type: Literal["exec"]
    command: list[str]
    env: dict[str, str]
    timeout_ms: Count | None = opt()
    user: str | None = opt()
    working_directory: str | None = opt()


class LocalShellCall(Wire):
    """A command for the client's own machine."""

    type: Literal["local_shell_call"]
    id: Id
    call_id: Id
    action: ExecAction
    status: ItemStatus


class LocalShellCallOutput(Wire):
    """What that command gave, as JSON text."""

    type: Literal["local_shell_call_output"]
    id: Id
    output: str
    status: ItemStatus | None = opt()


class ShellAction(Wire):
    """Commands to run one after the other. `max_output_length` counts characters."""

    commands: list[str]
    max_output_length: Count | None = opt()
    timeout_ms: Count | None = opt()


class ShellCall(Wire):
    """Commands for a shell, local or in a container."""

    type: Literal["shell_call"]
    id: Id
    call_id: Id
    action: ShellAction
    status: ItemStatus
    environment: JsonObject | None = opt()
    caller: JsonObject | None = opt()
    created_by: str | None = opt()


class ShellExit(Wire):
    """The command ended by itself."""

    type: Literal["exit"]
    exit_code: int


class ShellTimeout(Wire):
    """The command took too long."""

    type: Literal["timeout"]


class ShellOutput(Wire):
    """What one command printed and how it ended."""

    stdout: str
    stderr: str
    outcome: Annotated[ShellExit | ShellTimeout, Field(discriminator="type")]
    created_by: str | None = opt()


class ShellCallOutput(Wire):
    """What the commands gave, in their order."""

    type: Literal["shell_call_output"]
    id: Id
    call_id: Id
    output: list[ShellOutput]
    status: ItemStatus
    max_output_length: Count | None = opt()
    caller: JsonObject | None = opt()
    created_by: str | None = opt()


class CreateFile(Wire):
    """A file to make."""

    type: Literal["create_file"]
    path: str
    diff: str


class UpdateFile(Wire):
    """A file to change."""

    type: Literal["update_file"]
    path: str
    diff: str


class DeleteFile(Wire):
    """A file to remove."""

    type: Literal["delete_file"]
    path: str


class ApplyPatchCall(Wire):
    """One change of one file."""

    type: Literal["apply_patch_call"]
    id: Id
    call_id: Id
    operation: Annotated[CreateFile | UpdateFile | DeleteFile, Field(discriminator="type")]
    status: Literal["in_progress", "completed"]
    caller: JsonObject | None = opt()
    created_by: str | None = opt()


class ApplyPatchCallOutput(Wire):
    """Whether the change was made."""

    type: Literal["apply_patch_call_output"]
    id: Id
    call_id: Id
    status: Literal["completed", "failed"]
    output: str | None = opt()
    caller: JsonObject | None = opt()
    created_by: str | None = opt()
