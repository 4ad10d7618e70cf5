"""Users without a tenant, tenants of the same name, and whose name stands on what happens (field issue A-11)."""

from __future__ import annotations

import asyncio
import contextlib

import structlog
from websockets.exceptions import InvalidStatus

from tests.http.calling import UNKNOWN_ID, begin, create, ended, get
from tests.identity.servers import KEY, guarded
from tests.identity.signing import signed
from tests.support.ws_client import ws_client


async def test_a_user_without_a_tenant_and_a_tenant_of_its_name_share_nothing() -> None:
    async with guarded(tenant=[{"id": "x"}, {"id": "acme"}]) as server:
        alone, member = signed(sub="x", tenant=None), signed(sub="x", tenant="x")
        one = (await create(server, key=alone))["id"]
        two = (await create(server, key=member))["id"]
        rows = {state.response_id: (state.tenant, state.principal) for state in server.app.registry}
        assert rows == {one: ("user:x", "user:x"), two: ("x", "user:x")}
        for own, token, other in ((one, alone, two), (two, member, one)):
            assert (await get(server, f"/v1/responses/{own}", token)).status_code == 200
            hidden = await get(server, f"/v1/responses/{other}", token)
            unknown = await get(server, f"/v1/responses/{UNKNOWN_ID}", token)
            assert hidden.status_code == 404
            assert hidden.text.replace(other, "ID") == unknown.text.replace(UNKNOWN_ID, "ID")


async def test_runs_of_interleaved_callers_are_told_with_their_own_tenant_also_after_their_sockets_are_gone() -> (
    None
):
    """Handshakes of two tenants alternate, with refused ones between them; the runs outlive their sockets."""
    async with guarded() as server:
        wanted: dict[str, str] = {}

        async def one_run(tenant: str) -> None:
            async with ws_client(server.ws_url, api_key=signed(sub=f"of-{tenant}", tenant=tenant)) as client:
                await client.create("antiphon/demo", input=tenant)
                wanted[(await client.recv_on())["response"]["id"]] = tenant

        async def refused() -> None:
            with contextlib.suppress(InvalidStatus):
                async with ws_client(server.ws_url, api_key=signed("a wrong secret of thirty-two bytes.")):
                    raise AssertionError("it was let in")

        with structlog.testing.capture_logs() as lines:
            both = [one_run(tenant) for _ in range(6) for tenant in ("acme", "other")]
            await asyncio.gather(*(step for one in both for step in (one, refused())))
            for response_id, tenant in wanted.items():
                await ended(server, response_id, signed(sub=f"of-{tenant}", tenant=tenant))
        told = [line for line in lines if line.get("response_id") in wanted and "tenant" in line]
        assert {line["response_id"] for line in told} == wanted.keys()
        for line in told:
            assert line["tenant"] == wanted[line["response_id"]]
            assert line["principal"] == f"user:of-{line['tenant']}"
        for state in server.app.registry:
            assert state.tenant == wanted[state.response_id]


async def test_keys_and_tokens_of_one_user_are_one_caller_in_its_tenant() -> None:
    async with guarded() as server:
        response_id = await begin(server, "x", key=signed(), antiphon={"visibility": "private"})
        await ended(server, response_id, signed(jti="another"))
        assert (await get(server, f"/v1/responses/{response_id}", KEY)).status_code == 404
