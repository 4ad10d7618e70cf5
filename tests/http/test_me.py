"""`GET /v1/me`, and the address of the operators' page."""

from __future__ import annotations

import pytest

from antiphon_protocol.bodies import Caller
from tests.http.calling import http, key_of
from tests.support.server import running_server


async def test_a_caller_is_told_who_it_is_and_nobody_else_anything() -> None:
    keys = [
        key_of("secret", name="ci", tenant="acme", role="operator"),
        key_of("anna", user="anna", tenant="acme"),
    ]
    async with running_server(auth="required", key=keys, tenant=[{"id": "acme"}]) as server:
        async with http(server, "secret") as client:
            told = Caller.model_validate((await client.get("/v1/me")).json())
        async with http(server, "anna") as client:
            anna = (await client.get("/v1/me")).json()
        async with http(server) as client:
            nobody = await client.get("/v1/me")
    assert (told.id, told.tenant, told.role) == ("key:ci", "acme", "operator")
    assert anna == {"object": "principal", "id": "user:anna", "tenant": "acme", "role": "driver"}
    assert nobody.status_code == 401


@pytest.mark.parametrize(("path", "status"), [("/ops", 200), ("/ops/", 307), ("/ops/x", 404)])
async def test_the_operators_page_has_one_address(path: str, status: int) -> None:
    async with running_server() as server, http(server) as client:
        answer = await client.get(path)
    assert answer.status_code == status
    if status == 200:
        assert "js/ops/main.js" in answer.text
        assert "script-src 'self';" in answer.headers["content-security-policy"]
    if status == 307:
        assert answer.headers["location"] == "../ops"
