"""The figures of `redis_load.py` as the part of docs/scaling.md that is written by it."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import report
from redis_table import NodeCosts, Workload, markdown, nodes_per_redis, rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"
BEGIN = "<!-- written by bench/redis_load.py --docs -->"
END = "<!-- end of what is written -->"
_LINE = 118
NODE = NodeCosts(event_us=89, turn_us=1527, postgres_turn_us=790)
"""A paced event on Redis and PostgreSQL (README.md, figures of several nodes), a stored turn on one socket
(RESULTS.md), and 208 events of PostgreSQL's 3.8 µs (results/cluster-latest.md)."""
SLOW_FLUSH_MS = 100.0
"""The other flush time of the table."""
UNITS = {
    "exchange_us": "µs per exchange",
    "append_us": "µs per append in it, with one event",
    "event_us": "µs per further event of an append",
    "hint_us": "µs per append, for each node that follows the run",
    "feed_entry_us": "µs per entry of the lifecycle feed",
    "feed_told_us": "µs per entry, for each node with a dashboard",
    "progress_us": "µs per node and second, for the progress of 100 runs",
    "progress_told_us": "µs of the same, for each node with a dashboard",
    "run_us": "µs per begin and end of a stored run, one event in it",
    "admission_us": "µs per reservation, its commit, a charge and its end",
    "attach_us": "µs per attach on another node, which reads 200 events",
    "run_bytes": "bytes per live run with one event",
    "event_bytes": "bytes per further event of 250 bytes that came alone",
    "event_of_ten_bytes": "bytes per further event of 250 bytes, ten in an append",
    "node_us_per_s": "µs per second and idle node: lease, look, inbox",
    "node_pair_us_per_s": "µs per second and idle node, for each node there is",
}


def node_tables(found: Mapping[str, Any]) -> str:
    """What 1, 10 and 100 nodes need with each flush time, in Markdown."""
    costs: Mapping[str, float] = found["costs"]
    tables = []
    for flush_ms in (Workload().flush_ms, SLOW_FLUSH_MS):
        load = Workload(flush_ms=flush_ms)
        fitting = f"the thread of one Redis carries {nodes_per_redis(costs, load)} such nodes"
        tables.append(f"With `bus.flush_ms` {flush_ms:g} {fitting}:\n\n{markdown(rows(costs, NODE, load))}")
    return "\n\n".join(tables)


def page(found: Mapping[str, Any]) -> str:
    """The setup, the costs, the steps, the table of nodes."""
    parts = (_setup(found), _costs(found), _steps(found), "### 1, 10 and 100 nodes", node_tables(found))
    return "\n\n".join(parts)


def write_page(found: Mapping[str, Any], place: Path = PAGE) -> None:
    """Put the figures between the two marks of the page. Raises ValueError where they are not there."""
    text = place.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{place} lacks the marks between which figures are written")
    place.write_text(f"{head}{BEGIN}\n\n{page(found)}\n\n{END}{tail}", encoding="utf-8")


def _setup(found: Mapping[str, Any]) -> str:
    setup = found["setup"]
    foreign = [step["foreign_cores"] for step in found["steps"]]
    busy = max(foreign) > report.QUIET_CORES
    judged = (
        "so that these are orders of magnitude, and the steps are not to be trusted" if busy else "a quiet machine"
    )
    sentences = (
        f"`bench/redis_load.py`, options: {setup['options']}; {setup['date'][:10]}, {setup['machine']}, "
        f"{setup['versions']['redis']} with its append-only file, revision `{setup['revision']}`. "
        f"Other processes used up to {max(foreign):.1f} cores meanwhile, {judged}."
    )
    return textwrap.fill(sentences, _LINE, break_on_hyphens=False)


def _costs(found: Mapping[str, Any]) -> str:
    lines = ["| cost | Valkey's first thread, or its memory |", "|---|---:|"]
    lines += [f"| {UNITS[name]} | {cost:,.1f} |" for name, cost in found["costs"].items()]
    return "\n".join(lines)


def _steps(found: Mapping[str, Any]) -> str:
    lines = [
        "| events/s | p50 | p99 | cores of Valkey's first thread | the same by the costs | held up by |",
        "|---:|---:|---:|---:|---:|---|",
    ]
    last_tries = {step["offered_per_s"]: step for step in found["steps"]}
    lines += [
        f"| {offered_per_s:,.0f} | {step['p50_ms']:.1f} ms | {step['p99_ms']:.1f} ms | "
        f"{step['redis_cores']:.2f} | {step['model_cores']:.2f} | {step['bent'] or '–'} |"
        for offered_per_s, step in sorted(last_tries.items())
    ]
    carried = f"The most that nothing held up: {found['carried_events_per_s']:,.0f} events/s."
    return "\n".join(lines) + f"\n\n{carried}"
