"""What the steps of a run work with."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Toolbox
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.loop.ending import RunEnder
from antiphon.settings import LoopSettings
from antiphon.settings_tools import ToolsSettings


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Everything a step needs beside its run."""

    journal: SqliteJournal
    registry: RunRegistry
    toolbox: Toolbox
    held: HeldRuns
    compactor: Compactor
    ender: RunEnder
    loop: LoopSettings
    tools: ToolsSettings
