"""Pause, emergency stop, audit and usage over HTTP: who may, what it does, what it says (acceptance K, O)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from antiphon_protocol.bodies import AuditLog, TenantStanding, UsageReport
from tests.http.calling import begin, body, create, ended, error_of, get, http, key_of, slow
from tests.support.server import RunningServer, running_server

KEYS = [
    key_of("viewer", name="viewer", tenant="acme", role="viewer"),
    key_of("driver", name="driver", tenant="acme", role="driver"),
    key_of("operator", name="operator", tenant="acme", role="operator"),
    key_of("admin", name="admin", tenant="default", role="admin"),
    key_of("foreign", name="foreign", tenant="other", role="operator"),
]
PRICES = [{"model": "antiphon/echo", "input": 1, "output": 1}]


@contextlib.asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[RunningServer]:
    given = {"tenant": [{"id": "acme"}, {"id": "other"}], **settings}
    async with running_server(auth="required", key=KEYS, price=PRICES, **given) as server:
        yield server


async def post(server: RunningServer, path: str, key: str, **options: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.post(path, **options)


async def started(server: RunningServer, key: str) -> tuple[int, str]:
    """Status and code of a create."""
    answer = await post(server, "/v1/responses", key, json=body())
    if answer.status_code == 200:
        return 200, ""
    assert answer.headers["x-should-retry"] == "false"
    return answer.status_code, error_of(answer)["code"]


async def test_an_operator_pauses_its_tenant_and_resumes_it() -> None:
    async with served() as server:
        paused = await post(server, "/v1/admin/tenants/acme/pause", "operator")
        assert paused.json() == {"object": "tenant", "id": "acme", "paused": True}
        TenantStanding.model_validate(paused.json())
        assert await started(server, "driver") == (503, "tenant_paused")
        refused = await post(server, "/v1/responses", "driver", json=body())
        assert "acme" not in refused.text
        assert await started(server, "foreign") == (200, "")
        resumed = await post(server, "/v1/admin/tenants/acme/resume", "operator")
        assert resumed.json()["paused"] is False
        assert await started(server, "driver") == (200, "")


async def test_an_emergency_stop_refuses_everybody_and_with_cancel_ends_what_runs() -> None:
    async with served() as server:
        running = await begin(server, model=slow(server), key="driver")
        assert (await post(server, "/v1/admin/stop", "admin")).json() == {"object": "server", "stopped": True}
        assert await started(server, "driver") == await started(server, "foreign") == (503, "emergency_stop")
        assert (await get(server, f"/v1/responses/{running}", "driver")).json()["status"] == "in_progress"
        await post(server, "/v1/admin/stop", "admin", json={"cancel": True})
        assert (await ended(server, running, "driver"))["status"] == "cancelled"
        assert (await post(server, "/v1/admin/start", "admin")).json()["stopped"] is False
        assert await started(server, "driver") == (200, "")


async def test_what_an_admin_has_paused_its_operators_cannot_undo() -> None:
    async with served() as server:
        await post(server, "/v1/admin/tenants/acme/pause", "operator")
        await post(server, "/v1/admin/tenants/acme/pause", "admin")
        for verb in ("resume", "pause", "resume"):  # no way round by a pause of its own
            refused = await post(server, f"/v1/admin/tenants/acme/{verb}", "operator")
            assert (refused.status_code, error_of(refused)["code"]) == (403, "forbidden")
        assert await started(server, "driver") == (503, "tenant_paused")
        await post(server, "/v1/admin/tenants/acme/resume", "admin")
        assert await started(server, "driver") == (200, "")
        await post(server, "/v1/admin/tenants/acme/pause", "operator")
        assert (await post(server, "/v1/admin/tenants/acme/resume", "operator")).status_code == 200


async def test_a_pause_with_cancel_ends_the_runs_of_the_tenant_only() -> None:
    async with served() as server:
        model = slow(server)
        mine, other = [await begin(server, model=model, key=key) for key in ("driver", "foreign")]
        await post(server, "/v1/admin/tenants/acme/pause", "operator", json={"cancel": True})
        assert (await ended(server, mine, "driver"))["status"] == "cancelled"
        assert (await get(server, f"/v1/responses/{other}", "foreign")).json()["status"] == "in_progress"


ROUTES = [
    ("POST", "/v1/admin/tenants/acme/pause", {"operator": 200, "admin": 200, "foreign": 404}),
    ("POST", "/v1/admin/tenants/acme/resume", {"operator": 200, "admin": 200, "foreign": 404}),
    ("POST", "/v1/admin/stop", {"admin": 200}),
    ("POST", "/v1/admin/start", {"admin": 200}),
    ("GET", "/v1/admin/audit", {"admin": 200}),
    ("GET", "/v1/usage", {"operator": 200, "admin": 200, "foreign": 200}),
    ("GET", "/v1/usage?tenant=acme", {"operator": 200, "admin": 200, "foreign": 404}),
]


@pytest.mark.parametrize(("method", "path", "allowed"), ROUTES)
async def test_each_route_is_for_its_roles(method: str, path: str, allowed: dict[str, int]) -> None:
    async with served() as server:
        for key in ("viewer", "driver", "operator", "admin", "foreign"):
            async with http(server, key) as client:
                answer = await client.request(method, path)
            assert answer.status_code == allowed.get(key, 403), key
            if answer.status_code == 403:
                assert error_of(answer)["code"] == "forbidden" and answer.headers["x-should-retry"] == "false"


async def test_a_foreign_tenant_is_answered_as_an_unknown_one() -> None:
    async with served() as server:
        foreign, unknown = [
            await post(server, f"/v1/admin/tenants/{tenant}/pause", "operator") for tenant in ("other", "nobody")
        ]
        assert foreign.status_code == 404 and foreign.text == unknown.text
        assert foreign.json()["error"]["code"] == "tenant_not_found"
        assert (await post(server, "/v1/admin/tenants/*/pause", "admin")).status_code == 404


async def test_the_scope_of_a_user_with_a_long_name_can_be_paused() -> None:
    scope = quote("user:" + quote("å" * 256), safe="")
    async with served() as server:
        assert (await post(server, f"/v1/admin/tenants/{scope}/pause", "admin")).status_code == 200


@pytest.mark.parametrize("sent", [{"cancel": "yes"}, {"cancle": True}, []])
async def test_a_body_that_is_not_understood_stops_nobody(sent: Any) -> None:
    async with served() as server:
        assert (await post(server, "/v1/admin/stop", "admin", json=sent)).status_code == 400
        assert await started(server, "driver") == (200, "")


async def test_the_audit_log_says_who_did_what() -> None:
    async with served() as server:
        await post(server, "/v1/admin/tenants/acme/pause", "operator")
        await post(server, "/v1/admin/tenants/acme/resume", "admin")
        log = (await get(server, "/v1/admin/audit", "admin", limit=5)).json()
        AuditLog.model_validate(log)
        entries = log["data"]
        told = [(entry["principal"], entry["action"], entry["target"]) for entry in entries]
        assert told == [
            ("key:admin", "tenant.resume", "tenant:acme"),
            ("key:operator", "tenant.pause", "tenant:acme"),
        ]
        older = (await get(server, "/v1/admin/audit", "admin", before=entries[0]["at"])).json()["data"]
        assert [entry["action"] for entry in older] == ["tenant.pause"]
        for wrong in ({"limit": 0}, {"limit": 9999}, {"limit": "x"}, {"before": "yesterday"}):
            assert (await get(server, "/v1/admin/audit", "admin", **wrong)).status_code == 400


async def test_usage_shows_each_tenant_its_own_and_an_admin_all() -> None:
    async with served() as server:
        response = await create(server, key="driver")
        await create(server, key="foreign")
        await server.app.accounts.flush()
        mine = (await get(server, "/v1/usage", "operator", by="model")).json()
        UsageReport.model_validate(mine)
        (row,) = mine["data"]
        assert (row["model"], row["runs"], row["calls"]) == ("antiphon/echo", 1, 1)
        assert row["total_tokens"] == mine["total"]["total_tokens"] == response["usage"]["total_tokens"] > 0
        assert row["cost"] == pytest.approx(row["total_tokens"] / 1_000_000) and row["unpriced_calls"] == 0
        everything = (await get(server, "/v1/usage", "admin", by="tenant")).json()
        assert [one["tenant"] for one in everything["data"]] == ["acme", "other"]
        assert [
            one["tenant"] for one in (await get(server, "/v1/usage", "admin", tenant="acme")).json()["data"]
        ] == ["acme"]
        for wrong in ({"by": "color"}, {"from": "2026-1-1"}, {"from": "2026-02-02", "to": "2026-02-01"}):
            assert (await get(server, "/v1/usage", "admin", **wrong)).status_code == 400


async def test_a_tenant_without_requests_is_told_exactly_that() -> None:
    none = [{"id": "acme", "quotas": {"requests_per_month": 0}}, {"id": "other"}]
    async with served(tenant=none) as server:
        answer = await post(server, "/v1/responses", "driver", json=body())
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["type"]) == (429, "quota_exceeded", "rate_limit_error")
        assert error["message"] == "Monthly request quota exceeded"
        assert int(answer.headers["retry-after"]) > 0 and answer.headers["x-should-retry"] == "false"
        assert await started(server, "foreign") == (200, "")


async def test_a_journal_that_is_full_takes_no_more_runs() -> None:
    small = [{"id": "acme", "quotas": {"journal_bytes": 1}}, {"id": "other"}]
    async with served(tenant=small) as server:
        await create(server, key="driver")
        server.app.accounts.admission._journal_bytes._looks.clear()  # it looks every half minute
        assert await started(server, "driver") == (429, "quota_exceeded")
        assert await started(server, "foreign") == (200, "")


async def test_a_slot_is_free_again_when_its_run_has_ended() -> None:
    one_slot = [{"id": "acme", "quotas": {"concurrent_runs": 1}}, {"id": "other"}]
    async with served(tenant=one_slot) as server:
        running = await begin(server, model=slow(server), key="driver")
        answer = await post(server, "/v1/responses", "driver", json=body())
        assert (answer.status_code, error_of(answer)["code"]) == (429, "too_many_runs")
        await post(server, f"/v1/responses/{running}/cancel", "driver")
        await ended(server, running, "driver")
        assert await started(server, "driver") == (200, "")
