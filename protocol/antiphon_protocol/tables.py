"""The tables of PROTOCOL.md that are made from the code. `python -m antiphon_protocol.tables` writes it in."""

from __future__ import annotations

import sys
from pathlib import Path

from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from antiphon_protocol.lifecycle import LIFECYCLE_EVENTS

TEXT = Path(__file__).resolve().parents[1] / "PROTOCOL.md"


def code_table() -> str:
    """All codes, in the order of the source."""
    rows = ["| code | status | retryable | place | meaning |", "|---|---|---|---|---|"]
    for code, spec in CODES.items():
        retryable = "yes" if spec.retryable else "no"
        rows.append(f"| `{code}` | {spec.status} | {retryable} | {', '.join(spec.place)} | {spec.meaning} |")
    return "\n".join(rows)


def run_code_table() -> str:
    """The values of `response.error.code` that are ours."""
    rows = ["| code | retryable | meaning |", "|---|---|---|"]
    for code, spec in CODES.items():
        if "run" in spec.place:
            rows.append(f"| `{code}` | {'yes' if spec.retryable else 'no'} | {spec.meaning} |")
    return "\n".join(rows)


def reason_table() -> str:
    """The values of `response.incomplete_details.reason` that are ours."""
    rows = ["| reason | meaning |", "|---|---|"]
    rows += [f"| `{reason}` | {meaning} |" for reason, meaning in INCOMPLETE_REASONS.items()]
    return "\n".join(rows)


def lifecycle_table() -> str:
    """The events of the lifecycle feed."""
    rows = ["| event | what it says |", "|---|---|"]
    rows += [f"| `{event}` | {meaning} |" for event, meaning in LIFECYCLE_EVENTS.items()]
    return "\n".join(rows)


TABLES = {
    "codes": code_table,
    "run-codes": run_code_table,
    "reasons": reason_table,
    "lifecycle-events": lifecycle_table,
}


def fill(text: str) -> str:
    """The text with every table between its two marks renewed. Raises ValueError where a mark is missing."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: begin, generated -->", f"<!-- {name}: end -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"PROTOCOL.md has no marks for the table {name!r}")
        text = f"{head}{begin}\n{table()}\n{end}{tail}"
    return text


def main(arguments: list[str]) -> int:
    """Exit code: 0 in step, 1 drift (with `--check`)."""
    before = TEXT.read_text(encoding="utf-8")
    after = fill(before)
    if "--check" in arguments:
        return int(before != after)
    TEXT.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
