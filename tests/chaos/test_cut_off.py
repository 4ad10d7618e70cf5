"""A node that cannot reach Redis holds still; others go on with its runs, its clients are told when it is back."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.chaos.rounds import HOLD, LEASE_S, ROUNDS, end_of, rest, serves, settled
from tests.chaos.witness import Witness
from tests.cluster.answering import until_taken
from tests.session.held import calling, output, outputs
from tests.session.play import words, write_script
from tests.support.cluster import Cluster, ProcessNode, process_cluster, waits_durably
from tests.support.follower import Follower
from tests.support.redis import redis_server
from tests.support.relay import Relay
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.chaos


async def cut_off_and_healed(c: Cluster[ProcessNode], cut: Callable[[], None], heal: Callable[[], None]) -> None:
    """One round: what node B has goes on at A, and what B still says is no lie."""
    talking = write_script(c.folder, "talking", [words(3000, rate=30)])
    waiting = calling(c.folder, 1, name="waiting")
    async with (
        Follower(lambda: [c.b.ws_url]) as creator,
        Follower(lambda: [c.b.ws_url]) as asker,
        ws_client(c.b.ws_url) as loyal,
        ws_client(c.a.ws_url) as far,
    ):
        lost = await creator.create(talking)
        held = await asker.create(waiting, **HOLD)
        await asker.follow(until=lambda event: event["type"] == "response.output_item.done")
        call_id = asker.log[-1]["item"]["call_id"]
        await waits_durably(c.redis, held)
        witness = await Witness.on(loyal, lost)
        cut()
        try:
            async with (
                Follower(lambda: [c.a.ws_url], lost) as there,
                Follower(lambda: [c.a.ws_url], held) as other,
            ):
                assert end_of(await there.follow()) == "server_lost"
                await until_taken(far, held, output(call_id, "seen"))
                assert end_of(await other.follow()) == "completed"
                assert await _ready(c.b) in (503, None)
                witness.asleep()
                await rest(LEASE_S)
        finally:
            heal()
        assert await witness.told() in ("ended", "epoch_changed", "closed")
        events = await settled(c, creator)
        witness.check(events)
        answered = await settled(c, asker)
        assert outputs(answered) == [(call_id, "seen")]
    await serves(c)


async def _ready(node: ProcessNode) -> int | None:
    """What its readiness says; None if it cannot be asked."""
    with contextlib.suppress(httpx2.HTTPError):
        async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
            return (await http.get(f"{node.url}/ready")).status_code
    return None


async def test_a_node_whose_packets_to_redis_are_lost_is_suspended_and_healed(postgres_url: str) -> None:
    with redis_server("valkey") as redis:
        async with Relay("127.0.0.1", redis.port) as relay:
            each = {"b": {"bus_url": f"redis://127.0.0.1:{relay.port}/0"}}
            async with process_cluster(postgres_url, redis=redis, each=each, lease_s=LEASE_S) as c:
                for _ in range(ROUNDS):
                    await cut_off_and_healed(c, relay.blackhole, relay.restore)


@dataclass
class Namespace:
    """A network of its own with two wires to the machine: one to the servers, one for its clients."""

    name: str
    wire: str
    servers: str
    """Address of the machine on the wire that can be cut."""
    host: str
    """Address of the namespace on the other wire."""

    def cut(self) -> None:
        """The wire to Redis and PostgreSQL is dead: nothing is refused, nothing arrives."""
        _ip("link", "set", self.wire, "down")

    def heal(self) -> None:
        _ip("link", "set", self.wire, "up")


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True, timeout=10)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """Skipped where this account may not make any."""
    number = os.getpid() % 200
    name, net = f"antiphon-{os.getpid()}", f"10.{77 + number // 100}.{number % 100}"
    wires = [(f"an{os.getpid() % 100_000}{end}", f"ns{os.getpid() % 100_000}{end}") for end in "sc"]
    with contextlib.ExitStack() as stack:
        try:
            assert shutil.which("ip"), "there is no `ip`"
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            for index, (outer, inner) in enumerate(wires):
                _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
                stack.callback(_gone, outer)
                _ip("link", "set", inner, "netns", name)
                _ip("addr", "add", f"{net}.{index * 8 + 1}/29", "dev", outer)
                _ip("link", "set", outer, "up")
                _ip("-n", name, "addr", "add", f"{net}.{index * 8 + 2}/29", "dev", inner)
                _ip("-n", name, "link", "set", inner, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield Namespace(name, wires[0][0], f"{net}.1", f"{net}.10")


def _gone(wire: str) -> None:
    """The namespace takes its ends of the wires with it, sometimes before we do."""
    subprocess.run(["ip", "link", "del", wire], check=False, capture_output=True, timeout=10)


async def test_a_node_in_a_network_of_its_own_is_cut_from_redis_and_healed(
    postgres_url: str, namespace: Namespace
) -> None:
    database = urlsplit(postgres_url)
    assert database.hostname and database.port
    with redis_server("valkey") as redis:
        async with (
            Relay("127.0.0.1", redis.port, listen=namespace.servers) as to_redis,
            Relay(database.hostname, database.port, listen=namespace.servers) as to_postgres,
        ):
            store = postgres_url.replace(
                f"{database.hostname}:{database.port}", f"{namespace.servers}:{to_postgres.port}"
            )
            each = {
                "b": {
                    "within": ("ip", "netns", "exec", namespace.name),
                    "bus_url": f"redis://{namespace.servers}:{to_redis.port}/0",
                    "store_url": store,
                    "host": namespace.host,
                    "auth": "off",
                    "insecure": True,
                }
            }
            async with process_cluster(postgres_url, redis=redis, each=each, lease_s=LEASE_S) as c:
                for _ in range(ROUNDS):
                    await cut_off_and_healed(c, namespace.cut, namespace.heal)


async def test_a_slow_way_to_redis_costs_no_lease(postgres_url: str) -> None:
    with redis_server("valkey") as redis:
        async with Relay("127.0.0.1", redis.port) as relay:
            each = {"b": {"bus_url": f"redis://127.0.0.1:{relay.port}/0"}}
            async with process_cluster(postgres_url, redis=redis, each=each, lease_s=2.0) as c:
                relay.delay(0.1)
                model = write_script(c.folder, "short", [words(20, rate=20)])
                async with Follower(lambda: [c.b.ws_url]) as here:
                    run_id = await here.create(model)
                    async with Follower(lambda: [c.a.ws_url], run_id) as there:
                        events = await settled(c, here, there)
                assert (end_of(events), here.forks, there.forks) == ("completed", [], [])
