"""The server that the SDKs talk to."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import running_server

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test overrides of the server's settings, by parametrizing this fixture."""
    return {}


@pytest.fixture
async def base_url(tmp_path: Path, settings: dict[str, Any]) -> AsyncIterator[str]:
    """What an SDK is given as base URL. ANTIPHON_TEST_URL names a server that runs already."""
    given = os.environ.get("ANTIPHON_TEST_URL")
    if given:
        yield given
        return
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    async with running_server(tmp_path, **settings) as server:
        yield f"{server.url}/v1"
