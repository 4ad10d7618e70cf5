"""Holds our events to the typed unions of openai-python, in the environment where that SDK is installed."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from tests.support.sdk_processes import PYTHON_SCRIPTS, need_python_sdks, run_script

Wire = Literal["websocket", "sse"]


async def validate_with_openai(events: Iterable[Mapping[str, Any]], wire: Wire = "websocket") -> None:
    """Raise AssertionError naming each event the SDK's models refuse. Skips where the SDK is not installed.

    Keepalives and `antiphon:` frames are outside the union and left out. The one deviation allowed is our own
    codes in `response.error.code` and `response.incomplete_details.reason`.
    """
    python = need_python_sdks()
    held = [_with_openai_codes(event) for event in events if not _outside(event)]
    assert held, "there is no event to validate"
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        lines.writelines(json.dumps(event) + "\n" for event in held)
        lines.flush()
        result = await run_script([python, PYTHON_SCRIPTS / "validate_events.py", wire, lines.name])
    assert result["count"] == len(held)
    faults = [f"{f['type']} (event {f['line']}): {error}" for f in result["faults"] for error in f["errors"]]
    assert not faults, "openai-python refuses:\n  " + "\n  ".join(faults[:40])


def _outside(event: Mapping[str, Any]) -> bool:
    kind = str(event.get("type"))
    return kind == "keepalive" or kind.startswith("antiphon:")


def _with_openai_codes(event: Mapping[str, Any]) -> dict[str, Any]:
    """Put one of the vendor's values where ours from the table stand."""
    changed = copy.deepcopy(dict(event))
    response = changed.get("response")
    if not isinstance(response, dict):
        return changed
    error, details = response.get("error"), response.get("incomplete_details")
    if isinstance(error, dict) and error.get("code") in CODES:
        error["code"] = "server_error"
    if isinstance(details, dict) and details.get("reason") in INCOMPLETE_REASONS:
        details["reason"] = "max_output_tokens"
    return changed
