"""Medians, spread and ratios of a bench run: a table for the terminal, Markdown for the README, JSON."""

import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from figures import Figure, Grade, Measure, Target
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
    skipped: list[str] = field(default_factory=list)
    """What was not measured, and why."""

    def add(self, server: str, measure: Measure, result: dict[str, Any]) -> None:
        self.runs.setdefault(server, {}).setdefault(measure.key, []).append(result)
        if result.get("errors"):
            sample = str(result.get("first_error"))[:200]
            self.problems.append(f"{server}, {measure.key}: {result['errors']} errors, first: {sample}")

    def fail(self, server: str, measure: str, reason: str) -> None:
        self.problems.append(f"{server}, {measure}: {reason}")

    def skip(self, what: str, reason: str) -> None:
        """Say once that something is left out."""
        if (line := f"{what}: {reason}") not in self.skipped:
            self.skipped.append(line)

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

    def target(self, figure: Figure) -> Target | None:
        """What is wanted of a figure, where what it is judged against was measured."""
        target = figure.target
        return target if target is None or target.against in (None, *self.servers) else None

    def wants(self) -> bool:
        """Whether something is wanted of any figure."""
        return any(self.target(figure) for measure in self.measures for figure in measure.figures)


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
    ratios: dict[str, float]
    """Ours / each peer's, of the medians."""

    def grade(self) -> Grade | None:
        """How much is reached of what is wanted; None where nothing is, or the peer was not measured."""
        target = self.figure.target
        if target is None:
            return None
        if target.against is not None:
            ratio = self.ratios.get(target.against)
            return None if ratio is None else target.grade(ratio)
        ours = next(iter(self.values.values()))
        return target.grade(statistics.median(ours)) if ours else None


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
    medians = {name: statistics.median(found) for name, found in values.items() if found}
    if figure.less_rig:
        rig = medians.get(RIG)
        medians = {name: value - rig for name, value in medians.items()} if rig is not None else {}
    ours, *peers = results.servers
    ratios = {
        name: medians[ours] / medians[name] for name in peers if ours in medians and medians.get(name, 0.0) > 0
    }
    return Row(figure, values, ratios)


def _cell(values: list[float], figure: Figure) -> str:
    """Median and, with several repeats, the range."""
    if not values:
        return "–"
    show = f",.{figure.digits}f"
    spread = f" ({min(values):{show}}–{max(values):{show}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{show}}{spread}"


def _cells(row: Row, results: Results) -> list[str]:
    """The cells of a row; what is wanted, if anything is, comes last."""
    columns = [_cell(row.values[name], row.figure) for name in results.columns()]
    ratios = [f"{row.ratios[name]:.2f}" if name in row.ratios else "–" for name in results.servers[1:]]
    wanted = [str(results.target(row.figure) or "")] if results.wants() else []
    return [row.figure.title, row.figure.unit, *columns, *ratios, *wanted]


def _headings(results: Results) -> list[str]:
    ratios = [f"/ {name}" for name in results.servers[1:]]
    return ["measure", "unit", *results.columns(), *ratios, *(["wanted"] if results.wants() else [])]


COLOURS: dict[Grade, str] = {"met": "green", "first met": "yellow", "missed": "red"}


def print_table(console: Console, results: Results) -> None:
    """The table a person reads: what is wanted is green, yellow where only its first part is reached, or red."""
    table = Table(title="median (lowest–highest); / peer = ours to theirs", title_justify="left")
    for index, heading in enumerate(_headings(results)):
        table.add_column(heading, justify="left" if index < 2 else "right")
    for row in rows(results):
        cells = _cells(row, results)
        if grade := row.grade():
            cells[-1] = f"[{COLOURS[grade]}]{cells[-1]}[/]"
        table.add_row(*cells)
    console.print(table)
    foreign_cores = results.foreign_cores()
    if foreign_cores > QUIET_CORES:
        console.print(f"[yellow]not quiet[/] other processes used {foreign_cores:.2f} cores meanwhile")
    for line in results.skipped:
        console.print(f"[yellow]left out[/] {line}", highlight=False)
    for problem in results.problems:
        console.print(f"[red]problem[/] {problem}", highlight=False)


def markdown(results: Results, setup: dict[str, Any]) -> str:
    """What was measured with, the same table, and what went wrong or was left out."""
    headings = _headings(results)
    facts = [f"- {name.replace('_', ' ')}: {_spoken(value)}" for name, value in setup.items()]
    table = ["| " + " | ".join(headings) + " |", "|---|---" + "|---:" * (len(headings) - 2) + "|"]
    for row in rows(results):
        cells = _cells(row, results)
        if grade := row.grade():
            cells[-1] += f": {grade}"
        table.append("| " + " | ".join(cells) + " |")
    ends = [*(f"- left out: {line}" for line in results.skipped), *(f"- problem: {p}" for p in results.problems)]
    return "\n".join([*facts, "", *table, *(["", *ends] if ends else [])]) + "\n"


def _spoken(value: object) -> str:
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)


def as_json(results: Results, setup: dict[str, Any]) -> dict[str, Any]:
    """Setup, medians, ratios and the raw lines of every repeat."""
    return {
        "setup": setup,
        "figures": {
            row.figure.key: {
                "title": row.figure.title,
                "unit": row.figure.unit,
                "better": row.figure.better,
                "medians": {name: statistics.median(found) for name, found in row.values.items() if found},
                "values": row.values,
                "ratios": row.ratios,
                "wanted": str(row.figure.target or ""),
                "grade": row.grade(),
            }
            for row in rows(results)
        },
        "skipped": results.skipped,
        "problems": results.problems,
        "runs": results.runs,
    }


def publish(
    console: Console, results: Results, setup: dict[str, Any], latest: Path | None, json_path: Path | None
) -> None:
    """Print everything, and write JSON and Markdown. latest: where the newest results stand, a copy with a time
    stamp beside it; json_path: there instead. Neither: nothing is written."""
    setup = {**setup, "foreign_cores": round(results.foreign_cores(), 3)}
    for name, value in setup.items():
        console.print(f"{name}: {_spoken(value)}", highlight=False)
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
    text.write_text(markdown(results, setup))
    console.print("written: " + ", ".join(map(str, [*paths, text])), highlight=False, soft_wrap=True)
