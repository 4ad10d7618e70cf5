"""The store's contract is tested on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a database of the test's own may be: a folder for SQLite, or the URL of an empty one in PostgreSQL."""
    if request.param == "sqlite":
        return tmp_path
    url: str = request.getfixturevalue("postgres_url")
    return url
