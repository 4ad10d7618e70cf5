"""The examples of `protocol/PROTOCOL.md`, and the transcripts beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon_protocol.extension import COMMAND_TYPES
from antiphon_protocol.requests import REQUEST_TYPES

FOLDER = Path(__file__).resolve().parents[2] / "protocol"
CLIENT_TYPES = COMMAND_TYPES | REQUEST_TYPES

_BLOCK = re.compile(r"(?:<!-- (?P<model>\w+) -->\n)?```(?P<kind>jsonl?)\n(?P<body>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One JSON value of the text. model: the model named above the block, None for a frame. line: where."""

    line: int
    model: str | None
    text: str

    def load(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.text)
        return value


def protocol_text() -> str:
    return (FOLDER / "PROTOCOL.md").read_text(encoding="utf-8")


def examples() -> list[Example]:
    """Every `json` block, and every line of every `jsonl` block."""
    text = protocol_text()
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("body")) + 1
        if block["kind"] == "json":
            found.append(Example(line, block["model"], block["body"]))
        else:
            rows = block["body"].splitlines()
            found += [Example(line + index, None, row) for index, row in enumerate(rows)]
    return found


def frames() -> list[dict[str, Any]]:
    """The examples that are frames of a socket."""
    return [example.load() for example in examples() if example.model is None]


def server_frames() -> list[dict[str, Any]]:
    return [frame for frame in frames() if frame["type"] not in CLIENT_TYPES]


def cases() -> dict[str, dict[str, Any]]:
    """Name of a transcript -> `{title, steps: [{dir, frame}]}`."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("cases/*.json"))
    }
