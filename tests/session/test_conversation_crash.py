"""A turn of a client's conversation whose process was killed (PROTOCOL 9.3, 11.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from tests.contract.playing import MODEL, call, response, says, types
from tests.http.calling import until
from tests.session.held import inject, output
from tests.session.play import attach_all, connected, response_id
from tests.session.taking_up import DONE, HOLD, Stage, stage, state_of, whole
from tests.support.stub_upstream import StubConn, StubRequest, events_of_text


async def http(s: Stage, method: str, path: str, **fields: Any) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=s.server.url, timeout=40, trust_env=False) as client:
        answer = await client.request(method, path, json=fields if method == "POST" else None)
    assert answer.status_code == 200, answer.text
    given: dict[str, Any] = answer.json()
    return given


async def kinds(s: Stage, conversation: str) -> list[str]:
    listed = await http(s, "GET", f"/v1/conversations/{conversation}/items?order=asc")
    return types(listed["data"])


async def says_a_little(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in events_of_text(["a", "b"])[:-2]:
        conn.sse(event)
    await conn.held()


async def test_a_turn_lost_in_its_model_call_leaves_nothing_and_locks_nobody_out(tmp_path: Path) -> None:
    async with stage(tmp_path, says_a_little, DONE) as s:
        one = (await http(s, "POST", "/v1/conversations"))["id"]
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client, conversation=one)])
            last = "(SELECT MAX(last) FROM journal WHERE run_id = responses.id)"
            await until(lambda: (s.row(run_id, last) or 0) > 3)  # what it said is stored
            await s.restart()
        assert response(await whole(s, run_id))["error"]["code"] == "server_lost"
        assert await kinds(s, one) == []
        await http(s, "POST", "/v1/responses", model=MODEL, input="again", conversation=one)
        assert await kinds(s, one) == ["message", "message"]


async def test_a_turn_that_waits_for_its_client_goes_on_after_a_crash_and_leaves_all_of_it(tmp_path: Path) -> None:
    async with stage(tmp_path, says(call("look", "c")), DONE) as s:
        one = (await http(s, "POST", "/v1/conversations"))["id"]
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client, conversation=one, **HOLD)])
            await s.kept(run_id, waiting=True)
            await s.restart()
        async with connected(s.server.ws_url) as client:
            await client.hello()
            (pending,) = (await state_of(client, run_id))["pending_calls"]
            await inject(client, run_id, output(pending["call_id"]))
            events = await attach_all(client, run_id)
        assert response(events)["conversation"] == {"id": one}
        assert await kinds(s, one) == ["message", "function_call", "function_call_output", "message"]
