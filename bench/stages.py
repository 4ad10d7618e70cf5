"""Which stage of the path a sampled stack belongs to: one table, read from the innermost frame outwards.

The innermost frame that a rule knows decides; what stands inside it (libraries, clocks, ids) is counted with it.
Kernel work done by a call of ours, such as a write to a socket, is counted with the function that makes the call;
reads from sockets are made by the event loop itself.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

REQUEST = "upstream request"
READ = "upstream read"
SPLIT = "SSE split"
ASSEMBLE = "parse and assemble"
ROUND = "steps of a round"
JOURNAL = "journal and store"
FAN_OUT = "fan-out and frame"
WRITE = "socket write"
CREATE = "create: read, admission, pipeline"
END = "end: row, charge, bookkeeping"
TOLD = "lifecycle, feed, log lines"
LOOP = "event loop and kernel"
OTHER = "other"
STAGES = (REQUEST, READ, SPLIT, ASSEMBLE, ROUND, JOURNAL, FAN_OUT, WRITE, CREATE, END, TOLD, LOOP, OTHER)


class Rule(NamedTuple):
    """Frames of files that begin so, in functions that match from their first letter; none named: in all."""

    stage: str
    file: str
    functions: str = ""


RULES = (
    Rule(WRITE, "antiphon/transport/fast_websocket.py", r".*\.(write_frames|send)$"),
    Rule(WRITE, "antiphon/transport/sse.py"),
    Rule(FAN_OUT, "antiphon/session/attachment"),
    Rule(FAN_OUT, "antiphon/session/frames.py"),
    Rule(FAN_OUT, "antiphon/session/turns.py", r".*\.(_?deliver\w*|_follow|ended|changed)$"),
    Rule(FAN_OUT, "antiphon/journal/frames.py"),
    Rule(FAN_OUT, "antiphon/journal/log.py", r".*\.(_show|show|relay)$"),
    Rule(JOURNAL, "antiphon/journal/"),
    Rule(JOURNAL, "antiphon/store/"),
    Rule(SPLIT, "antiphon/upstream/sse.py"),
    Rule(ASSEMBLE, "antiphon/core/assembly/"),
    Rule(ASSEMBLE, "antiphon/upstream/answer.py"),
    Rule(ASSEMBLE, "antiphon/upstream/output.py"),
    Rule(ASSEMBLE, "antiphon/upstream/chat/"),
    Rule(
        READ,
        "antiphon/upstream/http1/connection.py",
        r".*\.(data_received|on_\w+|__anext__|wake|take_more|_wait)$",
    ),
    Rule(READ, "antiphon/upstream/http1/wakeup.py"),
    Rule(READ, "antiphon/upstream/http_upstream.py", r".*(_chunks|_some|_tail|_linger|_read_out|__aiter__)$"),
    Rule(READ, "antiphon/upstream/transport.py", r".*\.(__anext__|__aiter__)$"),
    Rule(READ, "antiphon/runs/loop/streams.py"),
    Rule(READ, "antiphon/runs/loop/steps.py", r"_consume$"),
    Rule(REQUEST, "antiphon/upstream/"),
    Rule(REQUEST, "antiphon/core/model_body.py"),
    Rule(REQUEST, "antiphon/runs/loop/model_calls.py"),
    Rule(END, "antiphon/runs/loop/ending.py"),
    Rule(END, "antiphon/runs/loop/charging.py"),
    Rule(END, "antiphon/governance/usage/"),
    Rule(END, "antiphon/runs/supervisor.py", r".*(_ended|_done|_told|_over)$"),
    Rule(END, "antiphon/runs/run.py", r".*\.(left|put_away|stored)$"),
    Rule(END, "antiphon/runs/held/"),
    Rule(ROUND, "antiphon/runs/loop/"),
    Rule(TOLD, "antiphon/ops/"),
    Rule(TOLD, "antiphon/cli/log"),
    Rule(TOLD, "antiphon/governance/observers.py"),
    Rule(TOLD, "logging/"),
    Rule(CREATE, "antiphon/transport/"),
    Rule(CREATE, "antiphon/session/"),
    Rule(CREATE, "antiphon/runs/"),
    Rule(CREATE, "antiphon/governance/"),
    Rule(CREATE, "antiphon/core/create_request.py"),
    Rule(READ, "aiohttp/"),
    Rule(LOOP, "asyncio/"),
    Rule(LOOP, "uvloop/"),
)
MAIN_THREAD = ": MainThread"
RUNNER = "asyncio/runners.py"
LINE_NUMBER = re.compile(r":\d+\)$")
FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::\d+)?\)$")


@dataclass(slots=True)
class StageCounts:
    """Samples of the main thread by stage, and by the functions that decided."""

    samples: Counter[str] = field(default_factory=Counter)
    functions: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, stage: str, function: str, times: int) -> None:
        self.samples[stage] += times
        self.functions.setdefault(stage, Counter())[function] += times

    @property
    def total(self) -> int:
        return sum(self.samples.values())

    def share(self, stage: str) -> float:
        """Of all samples, 0 to 1."""
        return self.samples[stage] / self.total if self.total else 0.0


def count_stages(lines: Iterable[str]) -> StageCounts:
    """Read the raw format of py-spy with threads: frames from the outermost to the innermost, and how often."""
    counts = StageCounts()
    for line in lines:
        stack, _, times = line.rstrip("\n").rpartition(" ")
        frames = stack.split(";")
        if MAIN_THREAD not in frames[0]:
            continue
        stage, frame = stage_of(_below_the_runner(frames[1:]))
        counts.add(stage, LINE_NUMBER.sub(")", frame), int(times))
    return counts


def stage_of(frames: list[str]) -> tuple[str, str]:
    """The stage of a stack below the runner of the event loop, and the frame that decided; no frame: the loop."""
    for frame in reversed(frames):
        if not (found := FRAME.match(frame)):
            continue
        for rule in RULES:
            if found["file"].startswith(rule.file) and re.match(rule.functions, found["function"]):
                return rule.stage, frame
    return (OTHER, frames[-1]) if frames else (LOOP, "no function of Python")


def _below_the_runner(frames: list[str]) -> list[str]:
    for index, frame in enumerate(frames):
        if RUNNER in frame:
            return frames[index + 1 :]
    return frames
