"""Holds our events to the typed unions of openai-python, in the environment where that SDK is installed."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from tests.support.sdk_processes import PYTHON_SCRIPTS, clean_env, need_python_sdks

Wire = Literal["websocket", "sse"]
WAIT_S = 60


def validate_with_openai(events: Iterable[Mapping[str, Any]], wire: Wire = "websocket") -> None:
    """Raise AssertionError naming each event the SDK's models refuse. Skips where the SDK is not installed.

    Keepalives and `antiphon:` frames are outside the union and left out. The one deviation allowed is our own
    codes in `response.error.code` and `response.incomplete_details.reason`. It blocks: in a running loop call it
    through `asyncio.to_thread`.
    """
    python = need_python_sdks()
    held = [_with_openai_codes(event) for event in events if not _outside(event)]
    assert held, "there is no event to validate"
    process = subprocess.run(
        [python, PYTHON_SCRIPTS / "validate_events.py", wire],
        input="".join(json.dumps(event) + "\n" for event in held),
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert result["count"] == len(held)
    lines = [f"{f['type']} (event {f['line']}): {error}" for f in result["faults"] for error in f["errors"]]
    assert not lines, "openai-python refuses:\n  " + "\n  ".join(lines[:40])


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
