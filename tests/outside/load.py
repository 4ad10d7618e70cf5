"""k6: a thousand turns or so, ten at a time over each way in, with checks of what comes back."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.outside.outcome import NotHereError, Outcome
from tests.outside.programs import python_program, python_version, run
from tests.outside.scripted import MODEL, server

SCRIPT = Path(__file__).parent / "load.js"


async def load() -> Outcome:
    """Each check counts as often as it was made."""
    program = python_program("k6")
    with tempfile.TemporaryDirectory(prefix="antiphon-k6-") as folder:
        summary = Path(folder) / "summary.json"
        async with server() as running:
            words = (program, "run", "--quiet", "--no-usage-report", "--summary-export", str(summary), str(SCRIPT))
            ended = await run(*words, cwd=Path(folder), BASE=running.url, MODEL=MODEL)
        if not summary.exists():
            raise NotHereError(f"k6 gave no report: {ended.output.strip()[-300:]}")
        checks = json.loads(summary.read_text(encoding="utf-8"))["root_group"]["checks"]
    failures = [f"{name}: {one['fails']} times" for name, one in checks.items() if one["fails"]]
    if ended.code and not failures:
        failures = [f"k6 ended with {ended.code}: {ended.output.strip()[-300:]}"]
    return Outcome(
        "k6 (load with checks)",
        python_version("k6"),
        "turns over HTTP, SSE and WebSocket, with a scripted model",
        passed=sum(one["passes"] for one in checks.values()),
        failures=failures,
    )
