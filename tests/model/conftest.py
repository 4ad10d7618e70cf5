"""The model's own process, and a server of ours in front of both of its APIs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.sdk_processes import ROOT, missing
from tests.support.server import RunningServer, running_server

PYTHON = ROOT / ".venv-model" / "bin" / "python"
LOADED_WITHIN_S = 60.0
APIS = ("chat", "responses")


@pytest.fixture(scope="session")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the model is served, without `/v1`."""
    if not PYTHON.exists():
        missing(".venv-model", "run these tests with `make test-model`")
    log = tmp_path_factory.mktemp("model") / "model.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [PYTHON, Path(__file__).with_name("serve_model.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None and process.stdin is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], LOADED_WITHIN_S)
        url = process.stdout.readline().decode().strip() if ready else ""
        assert url.startswith("http://127.0.0.1:"), f"the model was not served:\n{log.read_text()[-4000:]}"
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
async def server(model_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    """Ours: the model is `small-chat` through one API and `small-responses` through the other."""
    upstreams = [{"name": api, "url": f"{model_url}/v1", "api": api, "models": [f"small-{api}"]} for api in APIS]
    async with running_server(tmp_path, upstream=upstreams) as running:
        yield running
