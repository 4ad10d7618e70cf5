"""What every session needs of the server, handed over in one piece."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock, Ids
from antiphon.runs.directory import RunDirectory
from antiphon.runs.service import RunService
from antiphon.runs.supervisor import Supervisor
from antiphon.settings import Settings


@dataclass(frozen=True, slots=True)
class Engine:
    """The door, the places where runs are found, and the clock."""

    settings: Settings
    service: RunService
    directory: RunDirectory
    supervisor: Supervisor
    registry: RunRegistry
    journal: SqliteJournal
    clock: Clock
    ids: Ids
