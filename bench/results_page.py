"""Writes RESULTS.md from the newest results of `run.py` and `cluster.py`, and RESULTS.jsonl with their raw lines.

    results_page.py                    both beside this file

Only complete runs are written: not those with `--only`, `--servers`, `--quick` or `--smoke`.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

HERE = Path(__file__).resolve().parent
SECTIONS = (("latest.json", "One server"), ("cluster-latest.json", "Several nodes"))
PARTIAL = ("--only", "--servers", "--quick", "--smoke")
INTRODUCTION = """# Results

Written by `make bench`; [README.md](README.md) says what is measured and how to read it. Figures are medians, with
the lowest and the highest of the repeats in brackets. `/ peer` is ours divided by theirs; of latencies it is what
each adds to the column `rig`. Behind what is wanted stands whether it is met, or the first of two targets, or
missed. The raw lines of every repeat are in [RESULTS.jsonl](RESULTS.jsonl).
"""


def is_complete(document: dict[str, Any]) -> bool:
    """Whether everything was measured, and for as long as figures for publishing need."""
    options = str(document["setup"].get("options", PARTIAL[0]))
    return not any(option.partition("=")[0] in PARTIAL for option in options.split())


def raw_lines(title: str, document: dict[str, Any]) -> Iterator[bytes]:
    """The setup, then one line for each run of a load client."""
    yield orjson.dumps({"section": title, "setup": document["setup"]})
    for server, by_measure in document["runs"].items():
        for measure, results in by_measure.items():
            for repeat, result in enumerate(results, start=1):
                place = {"section": title, "server": server, "measure": measure, "repeat": repeat}
                yield orjson.dumps({**place, "result": result})


def write_page(results_dir: Path, page: Path) -> list[str]:
    """Write the page and its raw lines; what is left out, and why. Nothing complete: nothing is written."""
    text = [INTRODUCTION]
    lines: list[bytes] = []
    left_out: list[str] = []
    for name, title in SECTIONS:
        source = results_dir / name
        if not source.is_file():
            left_out.append(f"{title}: there is no {name}")
            continue
        document = orjson.loads(source.read_bytes())
        if not is_complete(document):
            left_out.append(f"{title}: the newest run was partial ({document['setup'].get('options', 'unknown')})")
            continue
        text.append(f"## {title}\n\n{source.with_suffix('.md').read_text()}")
        lines += raw_lines(title, document)
    if lines:
        page.write_text("\n".join(text))
        page.with_suffix(".jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where the benches write")
    parser.add_argument("--page", type=Path, default=HERE / "RESULTS.md", help="what is written")
    args = parser.parse_args()
    for line in write_page(args.results, args.page):
        print(f"left out of {args.page.name}: {line}")


if __name__ == "__main__":
    main()
