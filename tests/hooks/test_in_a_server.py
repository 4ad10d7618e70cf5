"""Extensions inside a real server: what they see, when, and what clients see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from antiphon.hooks import Next, Reply, RunOutcome, RunRequest
from antiphon.ops.lifecycle import Entry
from tests.hooks.hooking import WAIT_S, hang, soon
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, text

HOME = "tests.hooks.sample_hooks"


class Traced:
    """A server whose model is a stub, and everything that happens to its runs in one list."""

    def __init__(self, server: RunningServer, stub: StubUpstream, trace: list[str]) -> None:
        self.app = server.app
        self.stub = stub
        self.trace = trace
        self.data: dict[str, Any] = {}
        self._url = f"{server.url}/v1/responses"
        self.app.lifecycle.observe(self._record)

    def _record(self, tenant: str, entry: Entry) -> None:
        self.trace.append(entry.event)
        self.data.setdefault(entry.event, entry.data)

    def around(self, middleware: Any) -> None:
        self.app.hooks.dispatcher.subscribe("agent.run", middleware, name="mine", timeout_s=WAIT_S)

    def at_start(self, observer: Any, **options: Any) -> None:
        self.app.hooks.dispatcher.subscribe("run.started", observer, name="mine", **options)

    async def ask(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        create = {"model": "stub-model", "input": "hello", **fields}
        async with httpx2.AsyncClient(timeout=WAIT_S) as client:
            answer = await client.post(self._url, json=create)
        return answer.status_code, answer.json()


@asynccontextmanager
async def traced(**settings: Any) -> AsyncGenerator[Traced]:
    trace: list[str] = []
    play = text()

    async def model(request: StubRequest, conn: StubConn) -> None:
        trace.append("model")
        await play(request, conn)

    async with StubUpstream(model) as stub:
        upstream = {"name": "stub", "url": stub.url, "models": ["stub-model"]}
        async with running_server(upstream=[upstream], **settings) as server:
            yield Traced(server, stub, trace)


async def test_a_run_goes_from_middleware_over_observers_and_context_to_the_model() -> None:
    async with traced() as server:
        trace = server.trace

        async def middleware(request: RunRequest, next: Next) -> RunOutcome:
            trace.append("middleware")
            outcome = await next(request)
            trace.append(f"middleware {outcome.status}")
            return outcome

        async def observer(run: Any) -> None:
            trace.append("observer begins")
            await asyncio.sleep(0)
            trace.append("observer ends")

        server.around(middleware)
        server.at_start(observer, timeout_s=WAIT_S)
        server.at_start(observer, timeout_s=WAIT_S)
        assert (await server.ask())[0] == 200
        await soon(lambda: "middleware completed" in trace)
    barrier = ["observer begins", "observer begins", "observer ends", "observer ends"]
    assert trace[:6] == ["middleware", "run.created", *barrier]
    assert trace.index("run.started") < trace.index("model") < trace.index("run.completed")


async def test_a_hung_optional_observer_holds_the_run_up_only_for_its_time() -> None:
    async with traced() as server:
        server.at_start(hang, timeout_s=0.05)
        status, response = await server.ask()
    assert (status, response["status"]) == (200, "completed")


async def test_a_required_observer_that_fails_fails_the_run_before_the_model() -> None:
    async with traced() as server:
        server.at_start(hang, timeout_s=0.05, required=True)
        status, response = await server.ask()
    assert (status, response["status"], response["error"]["code"]) == (500, "failed", "server_error")
    assert "model" not in server.trace and server.trace[-1] == "run.failed"


@pytest.mark.parametrize("required", [False, True])
async def test_a_context_provider_that_fails_is_an_event_or_the_end(required: bool) -> None:
    context = {"name": "memory", "kind": "http", "url": "http://127.0.0.1:1/", "required": required}
    async with traced(context=[{**context, "timeout_s": WAIT_S}]) as server:
        _, response = await server.ask()
        if required:
            assert (response["status"], "model" in server.trace) == ("failed", False)
        else:
            assert (response["status"], server.data["run.updated"]) == (
                "completed",
                {"context_failed": ["memory"]},
            )


async def test_a_run_names_the_providers_it_wants_and_no_others() -> None:
    facts = {"kind": "python", "entry": f"{HOME}:Facts", "timeout_s": WAIT_S}
    tables = [
        {**facts, "name": "water"},
        {**facts, "name": "snow", "default": False, "options": {"fact": "Cold."}},
    ]
    async with traced(context=tables) as server:
        for names in (None, ["snow"], []):
            await server.ask(antiphon={"context": names}, instructions="Be kind.")
        status, answer = await server.ask(antiphon={"context": ["sand"]})
        sent = [request.body["instructions"] for request in server.stub.requests]
    assert sent == [
        "Water is wet. (default/default)\n\nBe kind.",
        "Cold. (default/default)\n\nBe kind.",
        "Be kind.",
    ]
    assert (status, answer["error"]["param"]) == (400, "antiphon.context")


async def test_a_reply_is_a_run_with_one_start_and_one_end_and_no_model() -> None:
    async with traced() as server:

        async def answer(request: RunRequest, next: Next) -> Reply:
            return Reply(text="42")

        server.around(answer)
        status, response = await server.ask()
        assert server.app.registry.lists(response["id"])
    assert (status, response["output"][0]["content"][0]["text"]) == (200, "42")
    assert [event for event in server.trace if event != "run.updated"].count("run.started") == 1
    assert server.trace[-1] == "run.completed" and "model" not in server.trace


@pytest.mark.parametrize(
    ("middleware", "status", "code"),
    [
        (f"{HOME}:passing", 404, "model_not_found"),
        (f"{HOME}:denying", 403, "denied"),
        (f"{HOME}:giving_nothing", 500, "server_error"),
    ],
)
async def test_a_refused_run_leaves_no_event(middleware: str, status: int, code: str) -> None:
    async with traced(middleware=[{"name": "mine", "entry": middleware}]) as server:
        answered, answer = await server.ask(model="no-such-model")
    assert (answered, answer["error"]["code"]) == (status, code)
    assert server.trace == []
