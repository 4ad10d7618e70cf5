"""How a run ends in the middle of its loop: failures, aborts, tokens (contract points 10, 11, 12, 13, 14)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.core.assembly.assembler import Assembler
from antiphon.journal.log import RunLog
from antiphon.journal.sqlite import SqliteJournal
from tests.contract.own_tools import begun, ended
from tests.contract.playing import LOOK, MODEL, Stage, call, keyed, own, pairs, response, says, stage, types
from tests.http.calling import create, get, until
from tests.http.calling import ended as response_of
from tests.session.play import attach_all, log_bytes, reference, response_id
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.stub_upstream import StubConn, StubRequest, answering, hang, play
from tests.support.ws_client import Event, ws_client

DONE = says(("text", "done"))
DO = keyed("do")
HANG = own("hang")


def cut(events: list[bytes]) -> Any:
    """An upstream that breaks off before its terminal event."""
    return play(events[:-1])


async def begin(s: Stage, **fields: Any) -> str:
    await s.client.create(MODEL, **fields)
    return response_id([await s.client.recv_on()])


async def cancel(s: Stage, run_id: str) -> float:
    """Cancel over another connection; when."""
    async with ws_client(s.server.ws_url) as other:
        await other.hello()
        at = time.monotonic()
        reply = await other.command("antiphon:cancel", response_id=run_id)
        assert reply["result"] == "accepted"
        return at


async def cancelled(s: Stage, run_id: str) -> list[Event]:
    """The whole log of a run that was cancelled: one terminal, and it says so."""
    await s.client.collect_run()
    events = await reference(s.server.ws_url, run_id)
    assert types(events).count("incomplete") == 1
    assert response(events)["status"] == "cancelled"
    return events


@pytest.mark.parametrize("cut_off", [1, 2], ids=["in the first round", "in the second round"])
async def test_a_stream_that_breaks_off_gives_one_failed_after_everything_that_was_said(cut_off: int) -> None:
    rounds: list[Any] = [says(call("do", key="e-cut"))] * (cut_off - 1)
    async with stage(*rounds, cut(says(("text", "half"))), has=[DO]) as s:
        events = await s.run()
        assert types(events).count("failed") == 1
        assert response(events)["error"]["code"] == "upstream_error"
        assert types(response(events)["output"]) == ["mcp_call"] * (cut_off - 1) + ["message"]
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        if cut_off == 2:
            assert response(events)["usage"]["total_tokens"] == 8, "what earlier rounds used is told"


async def test_a_refusal_in_a_later_round_is_the_end_of_the_response() -> None:
    refused = answering(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
    async with stage(says(call("do", key="e-400")), refused, has=[DO]) as s:
        body = {"model": MODEL, "input": "go", "stream": True}
        stream = await read_sse("POST", f"{s.server.url}/v1/responses", json=body)
        assert stream.done
        events = stream.payloads
        check_run(events)
        assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
        assert types(events[-1]["response"]["output"]) == ["mcp_call"]


async def test_events_that_waited_for_a_call_are_shown_when_the_round_fails() -> None:
    async with stage(cut(says(call("do", key="e-held"), ("text", "behind"))), has=[DO]) as s:
        events = await s.run()
    assert types(response(events)["output"]) == ["mcp_call", "message"]
    assert "behind" in [e.get("delta") for e in events]
    assert not begun["e-held"].is_set()


@pytest.mark.parametrize("fault", ["feed", "complete_calls", "take"])
async def test_a_fault_of_ours_gives_one_failed_with_the_next_number(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    real: Callable[..., Any] = getattr(Assembler, fault)
    left = {"feed": 7, "complete_calls": 0, "take": 1}

    def broken(self: Assembler, *args: Any) -> Any:
        left[fault] -= 1
        if left[fault] == -1:
            raise RuntimeError("a fault of ours")
        return real(self, *args)

    monkeypatch.setattr(Assembler, fault, broken)
    async with stage(says(("text", "one"), call("do", key=f"e-{fault}"), ("text", "two")), has=[DO]) as s:
        events = await s.run()
        assert types(events).count("failed") == 1
        assert response(events)["error"]["code"] == "server_error"
        assert "a fault of ours" not in json.dumps(events)
        assert log_bytes(await reference(s.server.ws_url, response_id(events))) == log_bytes(events)


async def test_events_that_a_fault_of_ours_kept_from_the_log_leave_no_hole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = SqliteJournal.append

    def broken(self: SqliteJournal, run_log: RunLog, events: list[bytes], first: int, **more: Any) -> None:
        if b"mcp_call.completed" in b"".join(events):
            raise RuntimeError("a fault of ours")
        real(self, run_log, events, first, **more)

    monkeypatch.setattr(SqliteJournal, "append", broken)
    async with stage(says(call("do", key="e-lost"), ("text", "two")), has=[DO]) as s:
        events = await s.client.run(MODEL)
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert response(events)["error"]["code"] == "server_error"


async def test_what_was_produced_in_the_same_read_before_a_fault_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Assembler._feed

    def broken(self: Assembler, raw: bytes) -> None:
        if b"third" in raw:
            raise RuntimeError("a fault of ours")
        real(self, raw)

    monkeypatch.setattr(Assembler, "_feed", broken)
    body = b"".join(
        b"data: %b\n\n" % event for event in says(("text", "first"), ("text", "second"), ("text", "third"))
    )

    async def at_once(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.chunk(body)
        conn.end()

    async with stage(at_once) as s:
        events = await s.run()
    assert [e["delta"] for e in events if "delta" in e] == ["first", "second"]
    assert response(events)["output"][0]["content"][0]["text"] == "firstsecond"


async def test_an_end_that_cannot_be_stored_is_an_error_and_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(says(call("do", key="e-store")), DONE, has=[DO], store={"retry_s": 0.5}) as s:
        monkeypatch.setattr("antiphon.store.records._END", "UPDATE no_such_table SET a = ?")
        events = await s.run()
    assert events[-1]["type"] == "response.failed"
    assert response(events)["error"]["code"] == "storage_unavailable"


async def test_a_side_effect_waits_until_its_call_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(says(call("do", key="e-intent")), DONE, has=[DO]) as s:
        seen: list[list[Any]] = []
        database = s.server.data_dir / "antiphon.db"

        async def look(arguments: dict[str, Any], context: Any) -> str:
            with sqlite3.connect(database) as connection:
                seen.append(
                    connection.execute(
                        "SELECT payload FROM journal WHERE run_id = ?", (context.run_id,)
                    ).fetchall()
                )
            return "looked"

        own_tool = s.server.app._toolbox._own["do"].tool  # type: ignore[attr-defined]
        monkeypatch.setattr(own_tool, "_function", look)
        await s.run()
    log = b"".join(row[0] for row in seen[0])
    assert b"response.mcp_call_arguments.done" in log


async def test_cancelling_closes_the_upstream_of_a_later_round_within_half_a_second() -> None:
    async with stage(says(call("do", key="e-close")), hang(), has=[DO]) as s:
        run_id = await begin(s)
        request = await s.stub.request(1)
        at = await cancel(s, run_id)
        async with asyncio.timeout(40):
            closed_at = await asyncio.shield(request.closed)
        assert closed_at - at < 0.5
        assert types(response(await cancelled(s, run_id))["output"]) == ["mcp_call"]
        s.stub.handler = play(DONE)
        await s.run("on", previous_response_id=run_id)
        assert len(pairs(s.sent(2))) == 2


async def test_cancelling_stops_a_tool_and_leaves_no_call_dangling() -> None:
    key = "e-stop"
    async with stage(says(("text", "t"), call("hang", key=key), ("text", "u")), DONE, has=[HANG]) as s:
        run_id = await begin(s)
        async with asyncio.timeout(40):
            await begun[key].wait()
        await cancel(s, run_id)
        async with asyncio.timeout(1):
            await ended[key].wait()
        output = response(await cancelled(s, run_id))["output"]
        assert [(item["type"], item["status"]) for item in output] == [
            ("message", "completed"),
            ("mcp_call", "incomplete"),
            ("message", "completed"),
        ]
        await s.run("on", previous_response_id=run_id)
        assert pairs(s.sent(1)) == []
        assert types(s.sent(1)) == ["message"] * 4


async def test_cancelling_while_it_waits_for_clients_ends_it_once() -> None:
    async with stage(says(call("look", "c"), call("do", "d", key="e-wait")), DONE, has=[DO]) as s:
        run_id = await begin(s, tools=[LOOK], antiphon={"client_tools": "hold"})
        await until(lambda: s.server.app.registry.get(run_id).state == "waiting_for_tool")
        await cancel(s, run_id)
        await cancelled(s, run_id)
        await s.run("on", previous_response_id=run_id, tools=[LOOK])
        assert pairs(s.sent(1)) == [("call", "d"), ("output", "d")]


@pytest.mark.parametrize("store", [True, False])
async def test_the_log_is_the_same_for_everybody_over_all_rounds(store: bool) -> None:
    rounds = says(("text", "a"), call("do", key=f"e-log-{store}"), ("text", "b")), DONE
    async with stage(*rounds, has=[DO]) as s:
        events = await s.run(store=store)
        await s.client.hello()
        assert log_bytes(await attach_all(s.client, response_id(events), after="start")) == log_bytes(events)


async def test_over_http_the_whole_loop_is_one_answer() -> None:
    async with stage(says(call("do", key="e-json")), DONE, has=[DO]) as s:
        answer = await create(s.server, "go", model=MODEL)
        assert types(answer["output"]) == ["mcp_call", "message"]
        assert await response_of(s.server, answer["id"]) == answer


async def test_the_callers_token_serves_every_round_and_is_nowhere_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    token = "Bearer swordfish-4711"
    rounds = says(call("do", key="e-token")), says(call("do", key="e-token")), DONE
    async with stage(*rounds, has=[DO], upstream={"caller_key": True}) as s:
        events = await s.run(antiphon={"upstream_authorization": token})
        assert [request.authorization for request in s.stub.requests] == [token] * 3
        shown = json.dumps([*events, (await get(s.server, f"/v1/responses/{response_id(events)}")).json()])
        folder = s.server.data_dir
    for file in folder.rglob("*"):
        if file.is_file():
            assert b"swordfish" not in file.read_bytes(), file
    logged = capsys.readouterr()
    assert "swordfish" not in shown + logged.out + logged.err


async def test_an_upstream_that_keeps_its_stream_open_does_not_slow_down_the_next_round() -> None:
    async def lingering(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in says(call("do", key="e-linger")) if request.connection == 0 else DONE:
            conn.sse(event)
        await conn.held()

    async with stage(lingering, has=[DO]) as s:
        await s.run()
        first, second = s.stub.requests
        assert second.arrived_at - first.arrived_at < 0.6
