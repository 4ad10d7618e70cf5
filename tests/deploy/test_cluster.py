"""`make cluster` starts everything, says where, ends everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psutil
import psycopg
import pytest
import redis.asyncio

from tests.deploy.compose import ROOT

WAIT_S = 60.0
PARTS = ("Redis", "PostgreSQL", "node-1", "node-2")
_ROW = re.compile(r"^  (Redis|PostgreSQL|node-\d)(?: \(Valkey\))? +(\S+://\S+) +(\d+) +(\S+)$", re.MULTILINE)


class ClusterProcess:
    """`python -m deploy.cluster` with the folder its data are in."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.output = folder.with_suffix(".out")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        config = folder.with_suffix(".toml")  # so that what a developer has configured has no say
        config.touch()
        kept["ANTIPHON_CONFIG"] = str(config)
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "deploy.cluster", "--folder", str(folder)],
                cwd=ROOT,
                env={**kept, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **env},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def addresses(self) -> dict[str, str]:
        return {row[0]: row[1] for row in _ROW.findall(self.said)}

    @property
    def pids(self) -> dict[str, int]:
        return {row[0]: int(row[2]) for row in _ROW.findall(self.said)}

    def wait_said(self, text: str) -> None:
        """Wait until it has said something."""
        wait_until(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal to it alone, and wait for its end; gives its exit status."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@contextlib.contextmanager
def running_cluster(folder: Path, **env: str) -> Iterator[ClusterProcess]:
    """A cluster that has said where its parts are."""
    cluster = ClusterProcess(folder, **env)
    try:
        cluster.wait_said("Ctrl-C ends everything")
        yield cluster
    finally:
        if cluster.process.poll() is None:
            cluster.end()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For data, open to every account: PostgreSQL does not run as root."""
    base = Path(tempfile.mkdtemp(prefix="antiphon-cluster-"))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ClusterProcess]:
    with running_cluster(folder / "shared") as cluster:
        yield cluster


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def create(url: str, text: str) -> dict[str, object]:
    """Run a turn of the echo model on a node; gives the response."""
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.post(f"{url}/v1/responses", json={"model": "antiphon/echo", "input": text})
        assert answer.status_code == 200, answer.text
        created: dict[str, object] = answer.json()
        return created


async def retrieve(url: str, response_id: object) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.get(f"{url}/v1/responses/{response_id}")


def test_it_names_every_part_with_address_process_and_log(cluster: ClusterProcess) -> None:
    rows = _ROW.findall(cluster.said)
    assert tuple(row[0] for row in rows) == PARTS
    for _, address, pid, log in rows:
        assert "127.0.0.1:" in address
        assert alive(int(pid))
        assert Path(log).is_file()


async def test_what_one_node_ran_the_other_knows(cluster: ClusterProcess) -> None:
    one, two = cluster.addresses["node-1"], cluster.addresses["node-2"]
    created = await create(one, "said to one")
    assert (await retrieve(two, created["id"])).json() == created


async def test_anybody_may_subscribe_to_the_lifecycle_at_the_address_it_names(cluster: ClusterProcess) -> None:
    async with redis.asyncio.Redis.from_url(cluster.addresses["Redis"]) as client, client.pubsub() as listener:
        await listener.subscribe("antiphon:v1:default:lifecycle")
        created = await create(cluster.addresses["node-2"], "watched")
        async with asyncio.timeout(40):
            while True:
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=1)
                if message and str(created["id"]).encode() in message["data"]:
                    return


async def test_the_database_it_names_holds_the_responses(cluster: ClusterProcess) -> None:
    created = await create(cluster.addresses["node-1"], "kept")
    with psycopg.connect(cluster.addresses["PostgreSQL"]) as database:
        (count,) = (
            database.execute("SELECT count(*) FROM responses WHERE id = %s", (created["id"],)).fetchone() or ()
        )
    assert count == 1


def test_a_second_cluster_in_the_same_folder_is_refused(cluster: ClusterProcess, folder: Path) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "deploy.cluster", "--folder", str(folder / "shared")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert second.returncode == 2
    assert "a cluster runs in" in second.stderr
    assert all(map(alive, cluster.pids.values()))


async def test_ctrl_c_ends_everything_and_the_next_start_goes_on(folder: Path) -> None:
    with running_cluster(folder / "kept") as first:
        created = await create(first.addresses["node-1"], "remember me")
        assert first.end() == 0
        assert not any(map(alive, first.pids.values()))
    with running_cluster(folder / "kept") as second:
        assert second.addresses == first.addresses
        assert (await retrieve(second.addresses["node-2"], created["id"])).json() == created


async def test_a_part_that_crashes_is_told_and_the_rest_goes_on(folder: Path) -> None:
    with running_cluster(folder / "crash") as cluster:
        os.kill(cluster.pids["node-1"], signal.SIGKILL)
        cluster.wait_said("node-1 was ended by SIGKILL")
        await create(cluster.addresses["node-2"], "still here")
        assert cluster.end(signal.SIGTERM) == 1
        assert not any(map(alive, cluster.pids.values()))


def test_nothing_outlives_a_cluster_that_is_killed(folder: Path) -> None:
    with running_cluster(folder / "killed") as cluster:
        cluster.end(signal.SIGKILL)
        wait_until(lambda: not any(map(alive, cluster.pids.values())))


def test_a_node_that_does_not_start_is_told_and_ends_the_others(folder: Path) -> None:
    cluster = ClusterProcess(folder / "wrong", ANTIPHON_PORTS="1")
    assert cluster.process.wait(WAIT_S) == 2
    assert "node-1 ended with status 2" in cluster.said
    assert "ANTIPHON_PORTS: there is no such setting" in cluster.said
    running = [process for process in psutil.process_iter(["cmdline"]) if _is_of(process, folder / "wrong")]
    assert running == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    return any(str(folder) in word for word in process.info["cmdline"] or ())
