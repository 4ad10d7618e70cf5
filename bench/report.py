"""Medians, spread and ratios of a bench run: a table for the terminal, Markdown for the README, JSON."""

import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from measures import Figure, Measure
from rich.console import Console
from rich.table import Table

RIG = "rig"
QUIET_CORES = 0.1
"""More than this used by others, and the figures are not for publishing."""


@dataclass(slots=True)
class Results:
    """Every result of the load client, by server and measure, in the order of the repeats."""

    servers: list[str]
    measures: list[Measure]
    runs: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, server: str, measure: Measure, result: dict[str, Any]) -> None:
        self.runs.setdefault(server, {}).setdefault(measure.key, []).append(result)
        if result.get("errors"):
            sample = str(result.get("first_error"))[:200]
            self.problems.append(f"{server}, {measure.key}: {result['errors']} errors, first: {sample}")

    def fail(self, server: str, measure: str, reason: str) -> None:
        self.problems.append(f"{server}, {measure}: {reason}")

    def foreign_cores(self) -> float:
        """What other processes of the machine used while we measured, in cores, on average."""
        found = [
            float(result.get("foreign_cores", 0.0))
            for by_measure in self.runs.values()
            for results in by_measure.values()
            for result in results
        ]
        return max(0.0, statistics.fmean(found)) if found else 0.0

    def values(self, server: str, measure: Measure, figure: Figure) -> list[float]:
        """One value per repeat that gave one."""
        found = []
        for result in self.runs.get(server, {}).get(measure.key, []):
            value = value_at(result, figure.path)
            if value is not None:
                found.append(float(value))
        return found

    def columns(self) -> list[str]:
        """The servers, and the rig where something ran on it."""
        return [*self.servers, *([RIG] if RIG in self.runs else [])]

    def wants(self) -> bool:
        """Whether something is wanted of any figure."""
        return any(figure.wanted for measure in self.measures for figure in measure.figures)


def value_at(result: dict[str, Any], path: str) -> Any:
    """What stands at a dotted path, None where nothing does."""
    value: Any = result
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all servers."""

    figure: Figure
    values: dict[str, list[float]]
    ratio: float | None
    """Ours / theirs, of the medians."""

    def misses(self) -> bool:
        """Whether it is more than what is wanted."""
        if self.figure.ratio_at_most is not None:
            return self.ratio is not None and self.ratio > self.figure.ratio_at_most
        ours = next(iter(self.values.values()))
        return self.figure.at_most is not None and bool(ours) and statistics.median(ours) > self.figure.at_most


def rows(results: Results) -> list[Row]:
    """All rows in the order of the measures."""
    return [
        _row(results, measure, figure)
        for measure in results.measures
        for figure in measure.figures
        if any(results.values(server, measure, figure) for server in results.servers)
    ]


def _row(results: Results, measure: Measure, figure: Figure) -> Row:
    values = {name: results.values(name, measure, figure) for name in results.columns()}
    ratio = None
    if len(results.servers) == 2:
        ours, theirs = (values[name] for name in results.servers)
        if ours and theirs and statistics.median(theirs) > 0:
            ratio = statistics.median(ours) / statistics.median(theirs)
    return Row(figure, values, ratio)


def _cell(values: list[float], figure: Figure) -> str:
    """Median and, with several repeats, the range."""
    if not values:
        return "–"
    show = f",.{figure.digits}f"
    spread = f" ({min(values):{show}}–{max(values):{show}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{show}}{spread}"


def _cells(row: Row, results: Results) -> list[str]:
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    columns = [_cell(row.values[name], row.figure) for name in results.columns()]
    wanted = [row.figure.wanted] if results.wants() else []
    return [row.figure.title, row.figure.unit, *columns, ratio, *wanted]


def _headings(results: Results) -> list[str]:
    return ["measure", "unit", *results.columns(), "ratio", *(["wanted"] if results.wants() else [])]


def print_table(console: Console, results: Results) -> None:
    """The table a person reads; a ratio on our side is green."""
    table = Table(title="median (lowest–highest); ratio = first server / second", title_justify="left")
    headings = _headings(results)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < 2 else "right")
    for row in rows(results):
        cells = _cells(row, results)
        if row.figure.wanted:
            cells[-1] = f"[{'red' if row.misses() else 'green'}]{cells[-1]}[/]"
        elif row.ratio is not None and not results.wants():
            ours_is_better = (row.ratio <= 1) == (row.figure.better == "lower")
            cells[-1] = f"[{'green' if ours_is_better else 'red'}]{cells[-1]}[/]"
        table.add_row(*cells)
    console.print(table)
    foreign_cores = results.foreign_cores()
    if foreign_cores > QUIET_CORES:
        console.print(f"[yellow]not quiet[/] other processes used {foreign_cores:.2f} cores meanwhile")
    for problem in results.problems:
        console.print(f"[red]problem[/] {problem}", highlight=False)


def markdown(results: Results) -> str:
    """The same table for a README."""
    headings = _headings(results)
    lines = ["| " + " | ".join(headings) + " |", "|---|---" + "|---:" * (len(headings) - 2) + "|"]
    lines += ["| " + " | ".join(_cells(row, results)) + " |" for row in rows(results)]
    return "\n".join(lines) + "\n"


def as_json(results: Results, setup: dict[str, Any]) -> dict[str, Any]:
    """Setup, medians, ratios and the raw lines of every repeat."""
    return {
        "setup": setup | {"foreign_cores": round(results.foreign_cores(), 3)},
        "figures": {
            row.figure.key: {
                "title": row.figure.title,
                "unit": row.figure.unit,
                "better": row.figure.better,
                "medians": {name: statistics.median(found) for name, found in row.values.items() if found},
                "values": row.values,
                "ratio": row.ratio,
                "wanted": row.figure.wanted,
            }
            for row in rows(results)
        },
        "problems": results.problems,
        "runs": results.runs,
    }


def publish(
    console: Console, results: Results, setup: dict[str, Any], latest: Path | None, json_path: Path | None
) -> None:
    """Print everything, and write JSON and Markdown. latest: where the newest results stand, a copy with a time
    stamp beside it; json_path: there instead. Neither: nothing is written."""
    for name, value in setup.items():
        console.print(f"{name}: {value}", highlight=False)
    print_table(console, results)
    paths: list[Path] = []
    if json_path is not None:
        paths = [json_path]
    elif latest is not None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        paths = [latest.with_name(latest.name.replace("latest", stamp)), latest]
    if not paths:
        return
    document = orjson.dumps(as_json(results, setup), option=orjson.OPT_INDENT_2)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document)
    text = paths[-1].with_suffix(".md")
    text.write_text(markdown(results))
    console.print("written: " + ", ".join(map(str, [*paths, text])), highlight=False, soft_wrap=True)
