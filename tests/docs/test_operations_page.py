"""docs/operations.md and the Grafana dashboard: every metric that is exported stands in the page, and no other."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from antiphon.app import Antiphon
from antiphon.settings import Settings
from tests.docs.test_documents import ROOT, _blocks
from tests.support.server import running_server, test_settings

PAGE = ROOT / "docs" / "operations.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "antiphon.json"
METRIC = re.compile(r"\b(?:antiphon|process)_[a-z_]+\b")


async def exported(data_dir: Path) -> set[str]:
    async with running_server(data_dir) as server:
        return _names(server.app)


def _names(app: Antiphon) -> set[str]:
    assert app.exporter is not None
    return app.exporter.names()


def documented() -> set[str]:
    """Metrics in the first column of the page's tables."""
    rows = re.findall(r"^\| (`(?:antiphon|process)_[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for row in rows for name in METRIC.findall(row)}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


async def test_the_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    assert documented() == await exported(tmp_path)


async def test_every_metric_of_the_dashboard_exists_and_none_of_ours_is_missing_there(tmp_path: Path) -> None:
    names = await exported(tmp_path)
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for text in expressions() for name in METRIC.findall(text)}
    query = dashboard()["templating"]["list"][1]["query"]["query"]
    shown |= set(METRIC.findall(query))
    assert shown <= names
    assert {name for name in names if name.startswith("antiphon_")} <= shown


def test_a_histogram_is_asked_for_its_buckets_and_a_counter_for_its_rate() -> None:
    for text in expressions():
        assert ("_seconds_bucket" in text) == ("histogram_quantile" in text), text
        for name in METRIC.findall(text):
            if name.endswith(("_total", "_bucket")):
                assert f"rate({name}{{" in text, text


def test_panels_do_not_lie_on_each_other_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_configurations_of_the_page_are_valid_settings(tmp_path: Path) -> None:
    for text in _blocks(PAGE, "toml"):
        assert isinstance(test_settings(tmp_path, **tomllib.loads(text)), Settings)
