"""What the steps of a run work with."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.core.loop_detection import LoopLimits
from antiphon.governance.context import ContextProviders
from antiphon.governance.observers import Observers
from antiphon.governance.usage.meter import Meter
from antiphon.journal.contract import Journal
from antiphon.ops.counts import Counts
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing.contract import Tracing
from antiphon.ports import Clock, Toolbox
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.loop.ending import RunEnder
from antiphon.settings.loop import LoopSettings
from antiphon.settings.tools import ToolsSettings


@dataclass(slots=True)
class Leaving:
    """Whether this node goes away and another one can go on: runs stop at the end of their round."""

    wanted: bool = False


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Everything a step needs beside its run. loop_limits: None where loops are not looked for."""

    journal: Journal
    registry: RunRegistry
    toolbox: Toolbox
    held: HeldRuns
    compactor: Compactor
    ender: RunEnder
    loop: LoopSettings
    tools: ToolsSettings
    leaving: Leaving
    loop_limits: LoopLimits | None
    meter: Meter
    observers: Observers
    context: ContextProviders
    clock: Clock
    counts: Counts
    tracing: Tracing | None
