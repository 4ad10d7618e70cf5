"""What pydantic found wrong, in the words of the wire: the field at fault and one sentence."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from antiphon.errors import RequestError


def refusal(error: ValidationError, raw: dict[str, Any], code: str = "invalid_request") -> RequestError:
    """The fault of the first field that has one, as a sentence with its place in what the client sent."""
    faults = [
        (_path(e["loc"], raw, e["type"] == "missing"), e)
        for e in error.errors(include_url=False, include_input=False)
    ]
    # A union tells of each of its branches; the one that got deepest is the one that was meant, and among those
    # the one that only found too much.
    path, first = max(
        (f for f in faults if f[0][:1] == faults[0][0][:1]),
        key=lambda fault: (len(fault[0]), fault[1]["type"] == "too_long"),
    )
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in path).lstrip(".")
    param = param or getattr(first.get("ctx", {}).get("error"), "field", "")  # of a rule about several fields
    if first["type"] == "missing":
        message = f"{param} is required."
    elif first["type"] == "extra_forbidden":
        whole = "antiphon object" if path[:1] == ["antiphon"] else "protocol"
        message = f"{param} is not a field of the {whole}."
    elif first["type"] in ("model_type", "dict_type"):
        message = f"{param}: should be an object."
    else:
        message = f"{param}: {first['msg'].removeprefix('Input ').removeprefix('Value error, ')[:200]}."
    return RequestError(message, code=code, param=param or None)


def _path(loc: tuple[int | str, ...], raw: Any, missing: bool) -> list[int | str]:
    """The part of a place that leads through what the client sent: pydantic adds names of branches of unions."""
    path: list[int | str] = []
    node = raw
    for number, part in enumerate(loc):
        if isinstance(node, dict) and (part in node or (missing and number == len(loc) - 1)):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int):
            node = node[part]
        else:
            continue
        path.append(part)
    return path
