"""JSON Schema of the wire. `python -m antiphon_protocol.schema` writes it, `--check` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from antiphon_protocol.events import ServerEvent
from antiphon_protocol.extension import ExtensionFrame
from antiphon_protocol.requests import ClientEvent

FOLDER = Path(__file__).resolve().parents[1] / "schema"
UNIONS: dict[str, tuple[str, Any]] = {
    "client_events.json": ("Frames from client to server", ClientEvent),
    "extension.json": ("Frames of the antiphon extension, both directions", ExtensionFrame),
    "server_events.json": ("Standard frames from server to client", ServerEvent),
}


def _require_type(schema: dict[str, Any]) -> None:
    """A frame's `type` has a default in Python only; on the wire it is always there."""
    for definition in schema["$defs"].values():
        kind = definition.get("properties", {}).get("type", {})
        if kind.pop("default", None) is not None and kind.get("const") != "message":
            definition["required"] = sorted({*definition.get("required", []), "type"})


def generate() -> dict[str, str]:
    """File name -> text. The same code always gives the same text."""
    texts: dict[str, str] = {}
    for name, (title, union) in UNIONS.items():
        schema = TypeAdapter(union).json_schema(ref_template="#/$defs/{model}")
        _require_type(schema)
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}
        texts[name] = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return texts


def drift(folder: Path = FOLDER) -> list[str]:
    """Names of files that differ from what the models say, are missing, or should not be there."""
    wanted = generate()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def write(folder: Path = FOLDER) -> None:
    """Make the folder say what the models say."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = generate()
    for stale in folder.glob("*.json"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Exit code: 0 in step, 1 drift."""
    if "--check" not in arguments:
        write()
        return 0
    stale = drift()
    for name in stale:
        sys.stderr.write(f"{name} differs from the models; run python -m antiphon_protocol.schema\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
