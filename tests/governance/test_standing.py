"""Pause and emergency stop: binding at the next admission on every node, audited before they are answered (K)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import AntiphonError, BusError, StorageError
from antiphon.governance.admission import standing
from antiphon.governance.admission.redis_ledger import RedisLedger
from antiphon.store import audit
from tests.governance.nodes import Node, caller, nodes, spender, until
from tests.support.redis import RedisServer

ADMIN = caller(id="key:admin", tenant="default", role="admin")
COUNTED = {"tiers": {"enterprise": {"requests_per_month": 99}}}


async def refusal(node: Node, tenant: str = "acme", run_id: str = "resp_1", **options: Any) -> str | None:
    """The code with which a start is refused; None if it is not."""
    try:
        taken = await node.accounts.admission.reserve(caller(tenant=tenant), run_id, agent=None, **options)
    except AntiphonError as error:
        assert error.status == 503 and tenant not in error.message
        assert error.headers == {"x-should-retry": "false"}
        return error.code
    taken.release()
    return None


async def test_a_pause_binds_the_next_run_of_the_tenant_and_of_nobody_else(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared) as running:
        one = await running.start()
        two = one if shared is None else await running.start()
        await one.accounts.standing.pause(ADMIN, "acme")
        assert await refusal(one) == "tenant_paused"
        assert await refusal(one, warm_up=True) == "tenant_paused"
        await until(lambda: two.accounts.standing.paused("acme"))
        assert await refusal(two) == "tenant_paused"
        assert await refusal(two, tenant="other") is None
        assert await two.accounts.meter.may_call(spender()) is None  # what runs goes on
        assert one.stopped == two.stopped == []
        await two.accounts.standing.resume(ADMIN, "acme")
        await until(lambda: not one.accounts.standing.paused("acme"))
        assert await refusal(one) is None


async def test_an_emergency_stop_is_for_everybody_and_with_cancel_ends_what_runs(
    tmp_path: Path, shared: RedisServer | None
) -> None:
    async with nodes(tmp_path, shared) as running:
        one = await running.start()
        two = one if shared is None else await running.start()
        await one.accounts.standing.stop(ADMIN, cancel=True)
        await until(lambda: two.accounts.standing.stopped)
        assert await refusal(one) == await refusal(two, tenant="other") == "emergency_stop"
        assert one.stopped == two.stopped == [None]
        assert await two.accounts.meter.may_call(spender()) == "cancelled"
        await one.accounts.standing.start_again(ADMIN)
        await until(lambda: not two.accounts.standing.stopped)
        assert await refusal(two) is None
        assert await two.accounts.meter.may_call(spender()) is None


async def test_a_pause_with_cancel_ends_the_runs_of_its_tenant(tmp_path: Path) -> None:
    async with nodes(tmp_path, None) as running:
        node = await running.start()
        await node.accounts.standing.pause(ADMIN, "acme", cancel=True)
        assert node.stopped == ["acme"]
        assert await node.accounts.meter.may_call(spender()) == "cancelled"
        assert await node.accounts.meter.may_call(spender(tenant="other")) is None


async def test_it_holds_over_a_restart(tmp_path: Path, shared: RedisServer | None) -> None:
    async with nodes(tmp_path, shared) as running:
        async with running.node() as node:
            await node.accounts.standing.pause(ADMIN, "acme")
            await node.accounts.standing.stop(ADMIN)
            await node.accounts.standing.start_again(ADMIN)
        async with running.node() as node:
            assert await refusal(node) == "tenant_paused" and not node.accounts.standing.stopped


async def test_the_entry_of_the_audit_log_is_there_with_the_change(tmp_path: Path) -> None:
    async with nodes(tmp_path, None) as running:
        node = await running.start()
        await node.accounts.standing.pause(ADMIN, "acme", cancel=True)
        await node.accounts.standing.stop(ADMIN)
        await node.accounts.audit.record(ADMIN, "agent.put", "agent:reviewer", {"fields": ["model"]})
        found = await node.accounts.usage.audit(before=None, limit=10)
        assert {(entry.principal, entry.tenant, entry.at) for entry in found} == {
            ("key:admin", "default", running.clock.at)
        }
        assert sorted((entry.action, entry.target) for entry in found) == [
            ("agent.put", "agent:reviewer"),
            ("server.stop", "server"),
            ("tenant.pause", "tenant:acme"),
        ]
        assert {entry.action: entry.detail for entry in found}["tenant.pause"] == {"cancel": True}
        assert await node.accounts.usage.audit(before=running.clock.at, limit=10) == []
        assert len(await node.accounts.usage.audit(before=None, limit=2)) == 2


async def test_what_cannot_be_audited_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(tmp_path, None) as running:
        node = await running.start()

        def refuse(entry: Any) -> Any:
            def work(connection: Any) -> None:
                raise StorageError("The disk is full.")

            return work

        monkeypatch.setattr(audit, "add", refuse)
        with pytest.raises(StorageError):
            await node.accounts.standing.pause(ADMIN, "acme")
        assert await refusal(node) is None
        assert running.database.rows("SELECT * FROM standing") == []


# Several nodes only


async def test_a_node_that_missed_the_hint_reads_it_within_its_period(
    tmp_path: Path, valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert standing.READ_AGAIN_S <= 4
    monkeypatch.setattr(standing, "CHANGED", "nobody:listens")
    async with nodes(tmp_path, valkey) as running:
        one, two = await running.start(), await running.start()
        monkeypatch.setattr(standing, "CHANGED", "nobody:hears")
        await one.accounts.standing.pause(ADMIN, "acme")
        await until(lambda: two.accounts.standing.paused("acme"))


@pytest.mark.parametrize("everybody", [False, True])
async def test_a_node_that_has_not_read_it_yet_is_refused_by_the_reservation_itself(
    tmp_path: Path, valkey: RedisServer, everybody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(tmp_path, valkey, **COUNTED) as running:
        one, two = await running.start(), await running.start()

        async def blind() -> None:
            """It reads nothing any more."""

        monkeypatch.setattr(two.accounts.standing, "read", blind)
        if everybody:
            await one.accounts.standing.stop(ADMIN)
        else:
            await one.accounts.standing.pause(ADMIN, "acme")
        code = "emergency_stop" if everybody else "tenant_paused"
        assert await refusal(two) == code and not two.accounts.standing.paused("acme")
        await one.accounts.standing.resume(ADMIN, "acme")
        await one.accounts.standing.start_again(ADMIN)
        running.clock.at += 1
        assert await refusal(two, run_id="resp_2") is None


async def test_an_older_change_never_undoes_a_newer_one(tmp_path: Path, valkey: RedisServer) -> None:
    async with nodes(tmp_path, valkey, **COUNTED) as running:
        node = await running.start()
        await node.ledger.set_standing("acme", 5, True)
        await node.ledger.set_standing("acme", 4, False)
        assert await refusal(node) == "tenant_paused"
        await node.ledger.set_standing("acme", 6, False)
        running.clock.at += 1
        assert await refusal(node) is None


async def test_a_mark_that_the_bus_did_not_take_is_made_later(
    tmp_path: Path, valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(tmp_path, valkey, **COUNTED) as running:
        node = await running.start()
        assert isinstance(node.ledger, RedisLedger)

        async def away(*_: Any) -> None:
            raise BusError("Redis does not answer.")

        with monkeypatch.context() as broken:
            broken.setattr(node.ledger, "set_standing", away)
            await node.accounts.standing.pause(ADMIN, "acme")
        assert await refusal(node) == "tenant_paused"
        mark = "antiphon:v1:admission:{acme}:held"
        await node.accounts.standing.read()
        assert valkey.command("GET", mark) == b"1 1"
