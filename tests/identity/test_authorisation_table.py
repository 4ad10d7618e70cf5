"""Every route and every frame, for every role, with an id of its own tenant, of another one, and of nobody.

The tables below are held against the routes of the application and the commands of the protocol: one that is new
and has no line here fails.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.routing import Route, WebSocketRoute

from antiphon.app import Antiphon
from antiphon_protocol.extension import COMMAND_TYPES
from antiphon_protocol.requests import REQUEST_TYPES
from tests.http.calling import UNKNOWN_ID, begin, ended, http, key_of, slow
from tests.support.server import RunningServer, running_server, test_settings
from tests.support.ws_client import WsClient, ws_client

KEYS = [
    *(key_of(role, name=role, tenant="acme", role=role) for role in ("viewer", "driver", "operator")),
    key_of("driver2", name="driver2", tenant="acme", role="driver"),
    key_of("admin", name="admin", tenant="default", role="admin"),
    key_of("stranger", name="stranger", tenant="other", role="operator"),
]
OF_TENANT = ("viewer", "driver", "driver2", "operator")
CALLERS = (*OF_TENANT, "admin")
NOBODY = "none"

ANYBODY = frozenset({NOBODY, *CALLERS})
EVERYONE = frozenset(CALLERS)
DRIVERS = EVERYONE - {"viewer"}
ITEM_ID = "msg_of_the_client"
OWNERS = frozenset({"driver", "operator", "admin"})
"""Whose run it is, and operators."""
OPERATORS = frozenset({"operator", "admin"})
ADMINS = frozenset({"admin"})
OF_ACME = frozenset(OF_TENANT)
"""For what is kept by tenant: an administrator is of another one."""

MESSAGE = {"type": "message", "role": "user", "content": "x"}
AGENT = {"instructions": "Be kind.", "model": "antiphon/echo"}


@dataclass(frozen=True)
class Line:
    """Who may. body, query: what is sent, `ID` standing for the id. kind: of what it is; empty: there is none."""

    who: frozenset[str]
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    kind: str = ""


def run(who: frozenset[str], body: Any = None, kind: str = "run") -> Line:
    return Line(who, body, kind=kind)


ROUTES: dict[str, Line] = {
    "GET /health": Line(ANYBODY),
    "GET /ready": Line(ANYBODY),
    "GET /openapi.json": Line(ANYBODY),
    "POST /v1/responses": Line(DRIVERS, {"model": "antiphon/echo", "input": "x"}),
    "POST /v1/responses after another": run(
        DRIVERS & OF_ACME, {"model": "antiphon/echo", "input": "x", "previous_response_id": "ID"}
    ),
    "POST /v1/responses/compact": run(DRIVERS & OF_ACME, {"model": "antiphon/echo", "previous_response_id": "ID"}),
    "POST /v1/responses/input_tokens": run(
        DRIVERS & OF_ACME, {"model": "antiphon/echo", "previous_response_id": "ID"}
    ),
    "GET /v1/responses/{response_id}": run(EVERYONE),
    "DELETE /v1/responses/{response_id}": run(OWNERS),
    "POST /v1/responses/{response_id}/cancel": run(OWNERS),
    "GET /v1/responses/{response_id}/input_items": run(EVERYONE),
    "POST /v1/responses/{response_id}/inject": run(
        DRIVERS, {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}
    ),
    "POST /v1/responses/{response_id}/claim": run(DRIVERS, {"call_id": "c"}),
    "POST /v1/responses/{response_id}/renew": run(DRIVERS, {"call_id": "c", "fence": 1}),
    "POST /v1/responses/{response_id}/release": run(DRIVERS, {"call_id": "c", "fence": 1}),
    "POST /v1/responses/{response_id}/steer": run(DRIVERS, {"input": "more"}, "live"),
    "POST /v1/responses in a conversation": Line(
        DRIVERS & OF_ACME, {"model": "antiphon/echo", "input": "x", "conversation": "ID"}, kind="named"
    ),
    "POST /v1/conversations": Line(DRIVERS, {}),
    "GET /v1/conversations/{conversation_id}": Line(EVERYONE, kind="named"),
    "POST /v1/conversations/{conversation_id}": Line(OWNERS, {"metadata": {}}, kind="named"),
    "DELETE /v1/conversations/{conversation_id}": Line(OWNERS, kind="named"),
    "GET /v1/conversations/{conversation_id}/items": Line(EVERYONE, kind="named"),
    "POST /v1/conversations/{conversation_id}/items": Line(DRIVERS, {"items": [MESSAGE]}, kind="named"),
    "GET /v1/conversations/{conversation_id}/items/{item_id}": Line(EVERYONE, kind="named"),
    "DELETE /v1/conversations/{conversation_id}/items/{item_id}": Line(OWNERS, kind="named"),
    "GET /v1/conversations/{conversation_id}/runs": Line(EVERYONE, kind="conversation"),
    "GET /v1/conversations/{conversation_id}/runs of a named one": Line(EVERYONE, kind="named"),
    "GET /v1/runs": Line(EVERYONE),
    "GET /v1/runs of a tenant": Line(EVERYONE, query={"tenant": "ID"}, kind="tenant"),
    "GET /v1/runs/feed": Line(EVERYONE),
    "GET /v1/runs/feed of a tenant": Line(EVERYONE, query={"tenant": "ID"}, kind="tenant"),
    "GET /v1/runs/{response_id}": run(EVERYONE),
    "GET /v1/admin/tenants": Line(OPERATORS),
    "GET /v1/agents": Line(EVERYONE),
    "GET /v1/agents/{name:path}": Line(OF_ACME, kind="agent"),
    "PUT /v1/agents/{name:path}": Line(OPERATORS, AGENT),
    "DELETE /v1/agents/{name:path}": Line(frozenset({"operator"}), kind="agent"),
    "POST /v1/admin/tenants/{tenant}/pause": Line(OPERATORS, kind="tenant"),
    "POST /v1/admin/tenants/{tenant}/resume": Line(OPERATORS, kind="tenant"),
    "POST /v1/admin/stop": Line(ADMINS),
    "POST /v1/admin/start": Line(ADMINS),
    "GET /v1/admin/audit": Line(ADMINS),
    "GET /v1/admin/status": Line(OPERATORS),
    "GET /metrics": Line(ADMINS),
    "GET /v1/usage": Line(OPERATORS),
    "GET /v1/usage of a tenant": Line(OPERATORS, query={"tenant": "ID"}, kind="tenant"),
    "POST /v1/tickets": Line(EVERYONE),
    "GET /v1/me": Line(EVERYONE),
    "GET /v1/models": Line(EVERYONE),
    "GET /v1/models/{model:path}": Line(EVERYONE),
}

FRAMES: dict[str, Line] = {
    "response.create": run(
        DRIVERS & OF_ACME, {"model": "antiphon/echo", "input": "x", "previous_response_id": "ID"}
    ),
    "response.cancel": run(OWNERS, {"response_id": "ID"}),
    "response.steer": run(DRIVERS, {"previous_response_id": "ID", "input": "more"}, "live"),
    "response.inject": run(
        DRIVERS,
        {"response_id": "ID", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
    ),
    "response.processed": run(EVERYONE, {"response_id": "ID"}),
    "antiphon:hello": Line(EVERYONE, {"protocol": 1, "client": {"name": "table"}}),
    "antiphon:auth": Line(EVERYONE, {"token": "KEY"}),
    "antiphon:ping": Line(EVERYONE),
    "antiphon:attach": run(EVERYONE, {"response_id": "ID"}),
    "antiphon:attach to a conversation": Line(EVERYONE, {"conversation_id": "ID"}, kind="conversation"),
    "antiphon:detach": run(EVERYONE, {"response_id": "ID"}),
    "antiphon:cancel": run(OWNERS, {"response_id": "ID"}),
    "antiphon:claim": run(DRIVERS, {"response_id": "ID", "call_id": "c"}),
    "antiphon:renew": run(DRIVERS, {"response_id": "ID", "call_id": "c", "fence": 1}),
    "antiphon:release": run(DRIVERS, {"response_id": "ID", "call_id": "c", "fence": 1}),
    "antiphon:feed.subscribe": Line(EVERYONE, {"tenant": "ID"}, kind="tenant"),
    "antiphon:feed.unsubscribe": Line(EVERYONE),
    "antiphon:presence": run(EVERYONE, {"response_id": "ID", "state": "typing"}),
}

REFUSED = frozenset({"forbidden", "successor_creation_failed"})
"""A steer is told what would become of the run that follows (PROTOCOL 7.3)."""
NOT_SEEN = frozenset({"response_not_found", "previous_response_not_found", "conversation_not_found"})


def test_every_route_has_a_line() -> None:
    server = _application()
    routes = {
        f"{method} {route.path}"
        for route in server.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == {_route(name) for name in ROUTES}
    assert [route.path for route in server.routes if isinstance(route, WebSocketRoute)] == ["/v1/responses"]


def test_every_frame_has_a_line() -> None:
    assert COMMAND_TYPES | REQUEST_TYPES == {name.partition(" to ")[0] for name in FRAMES}


@pytest.mark.parametrize("name", ROUTES)
async def test_a_route_lets_in_whom_the_table_names_and_tells_foreign_from_unknown_to_nobody(name: str) -> None:
    line = ROUTES[name]
    async with tables() as server:
        for caller in (NOBODY, *CALLERS):
            answer = await _call(server, name, line, caller, await own_id(server, line.kind))
            if caller not in line.who:
                # What is kept by tenant is not there for an administrator of another one.
                wanted = (401,) if caller == NOBODY else (403, 404) if caller == "admin" else (403,)
                assert answer.status_code in wanted, (caller, answer.text)
            else:
                assert answer.status_code not in (401, 403, 404), (caller, answer.text)
        if line.kind:
            foreign, unknown = await foreign_id(server, line.kind), unknown_id(line.kind)
            for caller in OF_TENANT:
                theirs = await _call(server, name, line, caller, foreign)
                nobodys = await _call(server, name, line, caller, unknown)
                assert theirs.status_code in (403, 404), (caller, theirs.text)
                assert _told(theirs, foreign) == _told(nobodys, unknown), caller


@pytest.mark.parametrize("name", FRAMES)
async def test_a_frame_is_acted_on_for_whom_the_table_names_and_foreign_is_as_unknown(name: str) -> None:
    line = FRAMES[name]
    async with tables() as server:
        for caller in CALLERS:
            given = await own_id(server, line.kind)
            async with ws_client(server.ws_url, api_key=caller) as client:
                await client.hello()
                code = _code(await _send(client, name, line, caller, given))
            if caller in line.who:
                assert code not in REFUSED | NOT_SEEN, (caller, code)
            else:
                assert code in REFUSED or (caller == "admin" and code in NOT_SEEN), (caller, code)
        if line.kind:
            foreign, unknown = await foreign_id(server, line.kind), unknown_id(line.kind)
            for caller in OF_TENANT:
                async with ws_client(server.ws_url, api_key=caller) as client:
                    await client.hello()
                    theirs = await _send(client, name, line, caller, foreign)
                    nobodys = await _send(client, name, line, caller, unknown)
                assert _as_told(theirs, foreign) == _as_told(nobodys, unknown), caller
                assert theirs is None or _code(theirs) is not None, (caller, theirs)


async def test_a_private_run_is_unknown_to_other_drivers_and_known_to_operators() -> None:
    async with tables() as server:
        private = await begin(server, "x", key="driver", antiphon={"visibility": "private"})
        await ended(server, private, "driver")
        for caller, status in (
            ("driver", 200),
            ("operator", 200),
            ("admin", 200),
            ("driver2", 404),
            ("viewer", 404),
        ):
            line = ROUTES["GET /v1/responses/{response_id}"]
            answer = await _call(server, "GET /v1/responses/{response_id}", line, caller, private)
            assert answer.status_code == status, caller


@contextlib.asynccontextmanager
async def tables() -> AsyncIterator[RunningServer]:
    tenants = [{"id": "acme"}, {"id": "other"}]
    async with running_server(auth="required", key=KEYS, tenant=tenants) as server:
        yield server


def _route(name: str) -> str:
    """The route that a line is about."""
    return name.partition(" after ")[0].partition(" of ")[0].partition(" in ")[0]


def _application() -> Any:
    """The application as it is put together, without a start."""
    return Antiphon(test_settings(Path(tempfile.gettempdir()))).asgi


async def own_id(server: RunningServer, kind: str) -> str:
    """Something new of acme's, as far as there is more than one."""
    return await _made(server, kind, "driver", "operator", "acme")


async def foreign_id(server: RunningServer, kind: str) -> str:
    return await _made(server, kind, "stranger", "stranger", "other")


def unknown_id(kind: str) -> str:
    return {
        "run": UNKNOWN_ID,
        "live": UNKNOWN_ID,
        "conversation": "conv_" + "0" * 32,
        "named": "conv_" + "0" * 32,
        "agent": "nothing",
        "tenant": "nowhere",
    }[kind]


async def _made(server: RunningServer, kind: str, driver: str, operator: str, tenant: str) -> str:
    if kind == "tenant":
        return tenant
    if kind == "agent":
        async with http(server, operator) as client:
            assert (await client.put(f"/v1/agents/of-{tenant}", json=AGENT)).status_code in (200, 201)
        return f"of-{tenant}"
    if kind == "live":
        return await begin(server, model=slow(server), key=driver)
    if kind == "named":
        async with http(server, driver) as client:
            answer = await client.post("/v1/conversations", json={"items": [{**MESSAGE, "id": ITEM_ID}]})
            return str(answer.json()["id"])
    if kind in ("run", "conversation"):
        response_id = await begin(server, "x", key=driver)
        await ended(server, response_id, driver)
        return response_id if kind == "run" else server.app.registry.get(response_id).conversation_id
    return "none"


async def _call(server: RunningServer, name: str, line: Line, caller: str, given: str) -> httpx2.Response:
    method, path = _route(name).split(" ")
    path = path.replace("{item_id}", ITEM_ID)
    for part in ("{response_id}", "{conversation_id}", "{tenant}"):
        path = path.replace(part, given)
    path = path.replace("{model:path}", "antiphon/echo")
    path = path.replace("{name:path}", given if line.kind == "agent" else f"made-by-{caller}")
    key = None if caller == NOBODY else caller
    async with http(server, key, **{"x-antiphon-instance": "table"}) as client:
        body, query = _filled(line.body, given, caller), _filled(line.query, given, caller)
        async with client.stream(method, path, params=query, json=body) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                await answer.aread()  # a feed has no end
        return answer


async def _send(client: WsClient, name: str, line: Line, caller: str, given: str) -> dict[str, Any] | None:
    """The answer, None where there is none."""
    kind, body = name.partition(" to ")[0], _filled(line.body or {}, given, caller)
    if kind.startswith("antiphon:"):
        return await client.command(kind, **body)
    before = len(client.received)
    await client.send({"type": kind, **body})
    if kind == "response.create":
        return await client.recv_on()
    await client.command("antiphon:ping")
    answers = [event for event in client.received[before:] if not event["type"].startswith("antiphon:")]
    return answers[0] if answers else None


def _filled(value: Any, given: str, caller: str) -> Any:
    return json.loads(json.dumps(value).replace('"ID"', json.dumps(given)).replace('"KEY"', json.dumps(caller)))


def _code(answer: dict[str, Any] | None) -> str | None:
    if answer is None:
        return None
    code: str | None = answer["code"] if "code" in answer else (answer.get("error") or {}).get("code")
    return code


def _told(answer: httpx2.Response, given: str) -> tuple[int, str]:
    return answer.status_code, answer.text.replace(given, "ID")


def _as_told(answer: dict[str, Any] | None, given: str) -> str:
    shown = {name: value for name, value in (answer or {}).items() if name != "id"}
    return json.dumps(shown).replace(given, "ID")
