"""Codex is left out unless its marker is asked for: `make test-codex` runs `pytest -m codex tests/codex`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests here in a run that does not name them."""
    if "codex" in (config.getoption("markexpr") or ""):
        return
    mine = [item for item in items if item.get_closest_marker("codex")]
    if mine:
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]
