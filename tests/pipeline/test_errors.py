"""An error is the same whatever it came through: transport, and middlewares that let it pass (acceptance B)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from antiphon.errors import AntiphonError, BusError
from antiphon.hooks import Deny, Next, RunOutcome, RunRequest
from tests.http.calling import until
from tests.pipeline.agents import post, serving
from tests.pipeline.hooking import around, nothing_is_left
from tests.support.http_client import SseParser
from tests.support.server import RunningServer
from tests.support.stub_upstream import Handler, answering
from tests.support.ws_client import Refused, ws_client

SHARED: dict[str, Any] = {
    "tenant": [{"id": "default", "models": ["small", "antiphon/script:crash"]}],
    "agent": [{"name": "closed", "model": "large"}],
}

REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "unreadable": ({"model": "small", "temperature": 9}, 400, "invalid_request"),
    "no model": ({}, 400, "model_required"),
    "unknown model": ({"model": "nobody"}, 404, "model_not_found"),
    "unknown agent": ({"model": "agent:nobody"}, 404, "agent_not_found"),
    "closed model": ({"model": "agent:closed"}, 403, "model_not_allowed"),
    "unknown tool": ({"model": "small", "tools": [{"type": "mcp", "server_label": "x"}]}, 400, "invalid_request"),
    "orphaned output": (
        {"model": "small", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
        400,
        "tool_output_unknown",
    ),
}

FAILED: dict[str, tuple[Handler, int, str]] = {
    "rate limit": (
        answering(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}),
        429,
        "rate_limit_exceeded",
    ),
    "too long": (
        answering(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        400,
        "context_length_exceeded",
    ),
    "down": (answering(503, {"error": {"message": "down"}}), 503, "upstream_unavailable"),
    "our credentials": (answering(401, {"error": {"message": "no"}}), 502, "upstream_error"),
}

with_middleware = pytest.mark.parametrize("middleware", [False, True], ids=["bare", "middleware"])
by_transport = pytest.mark.parametrize("transport", ["http", "sse", "socket"])


async def passing(request: RunRequest, go_on: Next) -> RunOutcome:
    return await go_on(request)


async def ask(
    server: RunningServer, transport: str, fields: dict[str, Any]
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """What a create came to: HTTP status (0 where a stream had begun), error, headers."""
    if transport == "socket":
        async with ws_client(server.ws_url) as client:
            await client.send({"type": "response.create", "input": "x", **fields})
            try:
                events = await client.collect_run()
            except Refused as refused:
                frame = refused.event
                return frame["status"], frame["error"], frame.get("headers", {})
            return 0, events[-1]["response"]["error"], {}
    answer = await post(server, None, **fields, **({"stream": True} if transport == "sse" else {}))
    if answer.headers["content-type"].startswith("text/event-stream"):
        shown = [event.data for event in SseParser().feed(answer.content) if event.data != "[DONE]"]
        return 0, orjson.loads(shown[-1])["response"]["error"], {}
    return answer.status_code, answer.json()["error"], dict(answer.headers)


@with_middleware
@by_transport
async def test_a_refusal_has_its_class_everywhere_and_leaves_nothing(transport: str, middleware: bool) -> None:
    async with serving(auth=False, **SHARED) as (stub, server):
        if middleware:
            around(server, passing)
        for kind, (fields, status, code) in REFUSED.items():
            got, error, headers = await ask(server, transport, fields)
            assert (got, error["code"]) == (status, code), kind
            assert error["type"] == ("permission_error" if status == 403 else "invalid_request_error"), kind
            assert (headers.get("x-should-retry") == "false") == (status == 403), kind
        assert stub.requests == []
        await nothing_is_left(server)


@with_middleware
@by_transport
async def test_a_failure_of_the_model_has_its_code_everywhere(transport: str, middleware: bool) -> None:
    async with serving(auth=False, retry={"max_attempts": 1}, **SHARED) as (stub, server):
        if middleware:
            around(server, passing)
        for kind, (handler, status, code) in FAILED.items():
            stub.handler = handler
            got, error, _ = await ask(server, transport, {"model": "small"})
            assert (got, error["code"]) == (status if transport == "http" else 0, code), kind


RAISED: list[tuple[AntiphonError, int]] = [
    (Deny("rate_limit_exceeded", "too fast", 429), 429),
    (Deny(), 403),
    (BusError("away"), 503),
    (AntiphonError("gone", code="server_draining"), 503),
]


@by_transport
async def test_what_a_middleware_raises_keeps_its_class(transport: str) -> None:
    errors = [error for error, _ in RAISED]

    async def refuse(request: RunRequest, go_on: Next) -> RunOutcome:
        raise errors.pop(0)

    async with serving(auth=False, **SHARED) as (stub, server):
        around(server, passing, "outer")
        around(server, refuse, "inner")
        for error, status in RAISED:
            got, told, _ = await ask(server, transport, {"model": "small"})
            assert (got, told["code"], told["message"]) == (status, error.code, error.message)
        assert stub.requests == []
        await nothing_is_left(server)


async def test_a_crash_of_ours_is_server_error_with_and_without_middleware() -> None:
    async with serving(auth=False, **SHARED) as (_, server):
        script = server.data_dir / "scripts"
        script.mkdir()
        (script / "crash.toml").write_text('[[turns]]\nsteps = [{ crash = "SECRET" }]\n')
        for number in range(2):
            if number:
                around(server, passing)
            for transport in ("http", "sse", "socket"):
                _, error, _ = await ask(server, transport, {"model": "antiphon/script:crash"})
                assert error["code"] == "server_error"
                assert "SECRET" not in str(error)
        await until(lambda: not server.app.engine.directory.live_runs())
