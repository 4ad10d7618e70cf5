"""`/openapi.json` says what the models say, names every route, and what the server answers fits it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from antiphon.app import Antiphon
from antiphon.transport.openapi.document import FILE, document, encoded, main
from tests.http.calling import UNKNOWN_ID, body, http, key_of
from tests.support.server import RunningServer, running_server, test_settings

DOCUMENT = json.loads(encoded())


def schema_of(method: str, template: str, status: int, kind: str = "application/json") -> Draft202012Validator:
    responses = DOCUMENT["paths"][template][method.lower()]["responses"]
    content = responses.get(str(status), responses["default"])["content"]
    return Draft202012Validator({**content[kind]["schema"], "components": DOCUMENT["components"]})


def test_every_route_is_in_it_and_nothing_else() -> None:
    app: Any = Antiphon(test_settings(Path(tempfile.gettempdir()))).asgi
    routes = {
        (method.lower(), route.path.replace(":path}", "}"))
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == {(method, path) for path, operations in DOCUMENT["paths"].items() for method in operations}


def test_the_file_has_no_drift() -> None:
    assert main(["--check"]) == 0, "run python -m antiphon.transport.openapi.document"


def test_drift_is_told_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "openapi.json"
    assert main(["--check"], file) == 1
    file.write_text(FILE.read_text(encoding="utf-8").replace('"bearer"', '"basic"'), encoding="utf-8")
    assert main(["--check"], file) == 1
    assert "openapi.json differs" in capsys.readouterr().err
    assert (main([], file), main(["--check"], file)) == (0, 0)


def test_its_schemas_are_sound_and_every_reference_leads_somewhere() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in set(_references(DOCUMENT)):
        node: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_ids_of_operations_differ_and_path_parameters_are_declared() -> None:
    ids: list[str] = []
    for path, operations in DOCUMENT["paths"].items():
        for one in operations.values():
            ids.append(one["operationId"])
            declared = {p["name"] for p in one.get("parameters", ()) if p["in"] == "path"}
            assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    assert len(ids) == len(set(ids))


async def test_it_is_served_to_anybody_as_it_is_written() -> None:
    async with running_server(auth="required", key=[key_of("k")]) as server, http(server) as client:
        for _ in range(2):
            answer = await client.get("/openapi.json")
            assert answer.status_code == 200 and answer.json() == document()


async def test_what_the_server_answers_fits_it() -> None:
    async with running_server() as server:
        made = (await call(server, "POST", "/v1/responses", json=body("hi"))).json()
        one = {"response_id": made["id"]}
        for template in ("", "/input_items"):
            await call(server, "GET", f"/v1/responses/{{response_id}}{template}", one)
        await call(server, "POST", "/v1/responses/{response_id}/cancel", one)
        await call(server, "GET", "/v1/runs/{response_id}", one)
        await call(server, "POST", "/v1/responses/compact", json=body("hi"))
        await call(server, "POST", "/v1/responses/input_tokens", json=body("hi"))
        items = [{"type": "message", "role": "user", "content": "hi", "id": "mine"}]
        named = (await call(server, "POST", "/v1/conversations", json={"items": items})).json()
        place = {"conversation_id": named["id"], "item_id": "mine"}
        conversation = "/v1/conversations/{conversation_id}"
        await call(server, "POST", conversation, place, json={"metadata": {"a": "b"}})
        await call(
            server, "POST", f"{conversation}/items", place, json={"items": [{"role": "user", "content": "x"}]}
        )
        for template in ("", "/items", "/items/{item_id}", "/runs"):
            await call(server, "GET", conversation + template, place)
        for template in ("/items/{item_id}", ""):
            await call(server, "DELETE", conversation + template, place)
        await call(server, "DELETE", "/v1/responses/{response_id}", one)
        for template, operations in DOCUMENT["paths"].items():
            if "get" in operations and "{" not in template and template not in ("/v1/runs/feed", "/metrics"):
                await call(server, "GET", template)
        await call(server, "POST", "/v1/tickets")
        await call(
            server, "POST", "/v1/admin/tenants/{tenant}/pause", {"tenant": "default"}, json={"cancel": True}
        )
        await call(server, "POST", "/v1/admin/tenants/{tenant}/resume", {"tenant": "default"})
        agent = {"name": "mine"}
        for _ in range(2):
            await call(server, "PUT", "/v1/agents/{name}", agent, json={"model": "antiphon/echo"})
        await call(server, "GET", "/v1/agents/{name}", agent)
        await call(server, "DELETE", "/v1/agents/{name}", agent)


async def test_what_the_server_refuses_fits_it() -> None:
    async with running_server() as server:
        await call(server, "POST", "/v1/responses", json={"input": 5}, refused=400)
        await call(server, "GET", "/v1/responses/{response_id}", {"response_id": UNKNOWN_ID}, refused=404)
        await call(server, "GET", "/v1/models/{model}", {"model": "none"}, refused=404)


async def call(
    server: RunningServer,
    method: str,
    template: str,
    parts: dict[str, str] | None = None,
    *,
    refused: int = 0,
    **sent: Any,
) -> httpx2.Response:
    """Call an operation; the answer fits what the document says of it."""
    async with http(server) as client:
        answer = await client.request(method, template.format(**(parts or {})), **sent)
    assert (answer.status_code == refused) if refused else answer.is_success, (template, answer.text)
    schema_of(method, template, answer.status_code).validate(answer.json())
    return answer


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [value for key, value in node.items() if key == "$ref" and isinstance(value, str)]
        return found + [one for value in node.values() for one in _references(value)]
    return [one for value in node for one in _references(value)] if isinstance(node, list) else []
