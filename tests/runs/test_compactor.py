"""When a run's context is over its threshold, by what the upstream counted or by an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.clock import SystemClock
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.run import Model
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.echo import EchoUpstream

RAW = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
COMPACTOR = Compactor(Sealer("k" * 32, Path("/nowhere")))


def model(**settings: Any) -> Model:
    configured = UpstreamSettings(name="u", url="http://localhost", **settings)
    return Model(EchoUpstream(SystemClock()), "m", configured)


def history(*answers: str) -> bytes:
    return orjson.dumps([{"role": role, "content": text} for text in answers for role in ("user", "assistant")])


def usage(tokens: int) -> dict[str, Any]:
    return {"input_tokens": tokens}


@pytest.mark.parametrize(("words", "over"), [("x" * 1500, False), ("x" * 3000, True)])
def test_without_a_count_four_bytes_are_a_token(words: str, over: bool) -> None:
    assert COMPACTOR.wanted(model(), RAW, history(words)) is over


def test_what_the_upstream_counted_wins_over_the_estimate() -> None:
    context = history("x" * 3000)
    assert not COMPACTOR.wanted(model(), RAW, context, usage(999), len(context))
    assert COMPACTOR.wanted(model(), RAW, context, usage(1001), len(context))
    short = history("x" * 600)
    assert COMPACTOR.wanted(model(), RAW, short, usage(1001), len(short))
    assert COMPACTOR.wanted(model(), RAW, context, usage(0), len(context)), "no count is no count"


def test_what_came_after_the_count_is_estimated_and_an_image_counts_little() -> None:
    before = history("x" * 600)
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 100_000}
    small = {"role": "user", "content": [{"type": "input_text", "text": "y" * 400}]}

    def after(added: Any) -> bytes:
        return before[:-1] + b"," + orjson.dumps(added) + b"]"

    assert not COMPACTOR.wanted(model(), RAW, after(small), usage(800), len(before))
    assert COMPACTOR.wanted(model(), RAW, after(small), usage(950), len(before))
    wide = {"context_management": [{"type": "compaction", "compact_threshold": 2000}]}
    assert not COMPACTOR.wanted(
        model(), wide, after({"role": "user", "content": [image]}), usage(300), len(before)
    )


def test_instructions_and_tools_are_part_of_the_estimate() -> None:
    context = history("x" * 1500)
    assert COMPACTOR.wanted(model(), {**RAW, "instructions": "y" * 2000}, context)
    assert COMPACTOR.wanted(model(), {**RAW, "tools": [{"type": "custom", "description": "y" * 2000}]}, context)


def test_nobody_is_compacted_who_did_not_ask_or_whose_upstream_does_it() -> None:
    context = history("x" * 100_000)
    assert not COMPACTOR.wanted(model(), {}, context)
    assert not COMPACTOR.wanted(model(native_compaction=True), RAW, context)
    assert COMPACTOR.wanted(Model(EchoUpstream(SystemClock()), "m", None), RAW, context)


def test_nothing_is_compacted_while_a_call_is_open() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    context = history("x" * 5000)[:-1] + b"," + orjson.dumps(call) + b"]"
    assert not COMPACTOR.wanted(model(), RAW, context)
