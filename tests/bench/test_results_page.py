"""RESULTS.md: what `make bench` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from results_page import write_page


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, options: str) -> None:
    runs = {"antiphon": {"paced": [{"events": 5}, {"events": 6}]}}
    document = {"setup": {"options": options, "machine": "a machine"}, "runs": runs}
    (folder / name).write_text(json.dumps(document))
    (folder / name).with_suffix(".md").write_text("| measure |\n")


def test_complete_runs_become_sections_with_their_raw_lines(results: Path, tmp_path: Path) -> None:
    put(results, "latest.json", "--repeats 5")
    put(results, "cluster-latest.json", "none")
    assert write_page(results, page := tmp_path / "RESULTS.md") == []
    text = page.read_text()
    assert text.index("## One server\n\n| measure |") < text.index("## Several nodes\n\n| measure |")
    lines = [json.loads(line) for line in page.with_suffix(".jsonl").read_text().splitlines()]
    assert lines[0] == {"section": "One server", "setup": {"options": "--repeats 5", "machine": "a machine"}}
    place = {"section": "One server", "server": "antiphon", "measure": "paced"}
    assert lines[1:3] == [
        {**place, "repeat": 1, "result": {"events": 5}},
        {**place, "repeat": 2, "result": {"events": 6}},
    ]


@pytest.mark.parametrize("options", ["--only paced", "--quick", "--smoke --repeats 2", "--servers=antiphon"])
def test_partial_runs_are_left_out_and_the_page_stays_as_it_was(
    options: str, results: Path, tmp_path: Path
) -> None:
    put(results, "latest.json", options)
    (page := tmp_path / "RESULTS.md").write_text("of an earlier run")
    assert write_page(results, page) == [
        f"One server: the newest run was partial ({options})",
        "Several nodes: there is no cluster-latest.json",
    ]
    assert page.read_text() == "of an earlier run"
