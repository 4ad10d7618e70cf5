"""Stages of a profile: which stage a sampled stack is counted for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from stages import (
    ASSEMBLE,
    CREATE,
    END,
    FAN_OUT,
    JOURNAL,
    LOOP,
    OTHER,
    READ,
    REQUEST,
    RULES,
    SPLIT,
    WRITE,
    Rule,
    count_stages,
    stage_of,
)

ABOVE = "thread (7): MainThread;serve (antiphon/cli/main.py:68);Runner.run (asyncio/runners.py:1)"
RUN = "RunLoop.run (antiphon/runs/loop/loop.py:43);infer (antiphon/runs/loop/steps.py:60)"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (f"{RUN};HttpTransport.ask (antiphon/upstream/transport.py:9)", REQUEST),
        ("HttpConnection.data_received (antiphon/upstream/http1/connection.py:9)", READ),
        (f"{RUN};SseReader.feed (antiphon/upstream/sse.py:40)", SPLIT),
        (
            f"{RUN};Assembler.feed (antiphon/core/assembly/assembler.py:1);RandomIds.mint (antiphon/clock.py:3)",
            ASSEMBLE,
        ),
        (f"{RUN};SqliteJournal.append (antiphon/journal/sqlite.py:1)", JOURNAL),
        (
            f"{RUN};SqliteJournal.append (antiphon/journal/sqlite.py:1);RunLog._show (antiphon/journal/log.py:2)",
            FAN_OUT,
        ),
        (f"{RUN};Attachment._write (antiphon/session/attachment.py:1);f (antiphon/journal/frames.py:2)", FAN_OUT),
        (f"{RUN};FastWebSocketProtocol.write_frames (antiphon/transport/fast_websocket.py:2)", WRITE),
        ("Turns._start (antiphon/session/turns.py:1);RunStarter.begin (antiphon/runs/start/starter.py:2)", CREATE),
        (f"{RUN};RunEnder.end (antiphon/runs/loop/ending.py:1)", END),
        ("Pool.get (somewhere/pool.py:1)", OTHER),
    ],
)
def test_the_innermost_function_with_a_rule_decides(frames: str, stage: str) -> None:
    assert stage_of(frames.split(";"))[0] == stage


def test_only_the_main_thread_is_counted_and_its_loop_without_a_function_is_the_kernels() -> None:
    counts = count_stages(
        [
            f"{ABOVE} 3",
            f"{ABOVE};{RUN};SseReader.feed (antiphon/upstream/sse.py:40) 1",
            "thread (8): antiphon-writer;work (antiphon/store/group_commit.py:9) 90",
        ]
    )
    assert (counts.total, counts.share(LOOP), counts.share(SPLIT)) == (4, 0.75, 0.25)


def test_what_no_rule_knows_is_told_by_name_without_its_lines() -> None:
    counts = count_stages([f"{ABOVE};f (new/part.py:1) 2", f"{ABOVE};f (new/part.py:5) 3"])
    assert counts.functions[OTHER] == {"f (new/part.py)": 5}


SERVER = Path(__file__).parents[2] / "server"


def functions_of(rule: Rule) -> Iterator[str]:
    """The functions of our own files that begin as a rule says, each as a method of a class `C`."""
    for path in (SERVER / "antiphon").rglob("*.py"):
        if str(path.relative_to(SERVER)).startswith(rule.file):
            yield from (f"C.{name}" for name in re.findall(r"def (\w+)", path.read_text()))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.file.startswith("antiphon/")], ids=str)
def test_every_rule_for_our_own_code_still_finds_a_function(rule: Rule) -> None:
    assert any(re.match(f"(C[.])?{rule.functions}", name) for name in functions_of(rule))
