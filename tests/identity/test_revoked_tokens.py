"""Signed tokens that were taken back: one by its id, or all that a user had."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from antiphon.core.principal import Principal
from antiphon.errors import StorageError, Unauthorized
from antiphon.governance.identity.revoked_tokens import RevokedTokens
from antiphon.store import revoked_tokens
from antiphon.store.revoked_tokens import one_token, tokens_of
from tests.http.calling import error_of, get, http, until
from tests.identity.servers import guarded
from tests.identity.signing import TurnedClock, signed
from tests.support.server import RunningServer
from tests.support.ws_client import ws_client

QUICK: dict[str, Any] = {"identity": {"reread_s": 0.1}}


class Rows:
    def __init__(self) -> None:
        self.rows: dict[str, float] = {}
        self.away = False

    async def since(self, at: float) -> Mapping[str, float]:
        if self.away:
            raise StorageError("away")
        return {name: when for name, when in self.rows.items() if when >= at}


def anna(token_id: str = "t1", issued_at: float | None = 1_000.0, tenant: str = "acme") -> Principal:
    return Principal("user:anna", tenant, "driver", credential=one_token(token_id), issued_at=issued_at)


async def test_one_token_or_all_of_a_user_until_now_and_no_other_one() -> None:
    rows, clock = Rows(), TurnedClock()
    revoked = RevokedTokens(rows, clock, 2.0)
    told: list[None] = []
    revoked.on_revoked = lambda: told.append(None)
    rows.rows = {one_token("t1"): clock.at, tokens_of("acme", "user:anna"): 2_000.0}
    await revoked.read()
    await revoked.read()
    assert len(told) == 1
    assert all(map(revoked.is_revoked, [anna(), anna("t1", 9_000.0), anna("t2", 2_000.0), anna("t2", None)]))
    assert not any(map(revoked.is_revoked, [anna("t2", 2_001.0), anna("t2", tenant="other")]))
    rows.rows[tokens_of("acme", "user:anna")] = clock.at + 1  # once more, later
    rows.away = True
    with pytest.raises(StorageError):
        await revoked.read()
    clock.at += 3 * 3600
    rows.away = False
    await revoked.read()
    with pytest.raises(Unauthorized) as refused:
        revoked.check(anna("t2", 2_001.0))
    assert refused.value.code == "invalid_token" and len(told) == 2


async def revoke(server: RunningServer, row_id: str) -> None:
    """As the command does it."""
    await server.app.backends.store.writer.submit(revoked_tokens.revoke(row_id, time.time() - 30))


async def test_requests_and_sockets_of_a_revoked_token_end_on_a_running_server() -> None:
    now = int(time.time())
    one, two, later = signed(jti="t1"), signed(jti="t2", iat=now - 60), signed(jti="t3", iat=now)
    async with guarded(**QUICK) as server, ws_client(server.ws_url, api_key=one) as client:
        await client.command("antiphon:ping")
        await revoke(server, one_token("t1"))
        ended = (await client.recv_until(lambda event: event["type"] == "error"))[-1]
        assert ended["error"]["code"] == "invalid_api_key"
        assert (await client.wait_closed())[0] == 1008
        async with http(server, one) as caller:
            refused = await caller.get("/v1/models")
            assert (refused.status_code, error_of(refused)["code"]) == (401, "invalid_token")
        assert (await get(server, "/v1/models", two)).status_code == 200
        await revoke(server, tokens_of("acme", "user:anna"))

        async def is_refused() -> bool:
            return (await get(server, "/v1/models", two)).status_code == 401

        await until(is_refused)
        assert (await get(server, "/v1/models", later)).status_code == 200
