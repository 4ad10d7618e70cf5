"""What the log holds: a receipt for each create, no prompt, argument, output or credential (PROTOCOL 14.5)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from tests.http.calling import body, create, http, key_of
from tests.support import stub_upstream as stub
from tests.support.http_client import read_sse
from tests.support.server import ServerProcess, running_server
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import ws_client

SECRETS = {
    "prompt": "SECRETPROMPT",
    "output": "SECRETOUTPUT",
    "arguments": "SECRETARGS",
    "tool output": "SECRETTOOL",
    "instructions": "SECRETRULES",
    "metadata": "SECRETMETA",
    "key": "SECRETKEY",
    "wrong key": "SECRETWRONG",
    "servers token": "SECRETOURTOKEN",
    "callers token": "SECRETTHEIRTOKEN",
    "mcp": "SECRETMCP",
    "header": "SECRETCOOKIE",
}


async def test_a_create_leaves_one_receipt_with_its_fields_and_nothing_it_said() -> None:
    async with running_server() as server:
        with structlog.testing.capture_logs() as lines:
            parent = await create(
                server, "SECRETPROMPT", tools=[{"type": "function", "name": name} for name in "fg"]
            )
            child = {"previous_response_id": parent["id"], "store": False, "stream": True}
            await read_sse("POST", f"{server.url}/v1/responses", json=body("SECRETPROMPT", **child))
            async with ws_client(server.ws_url) as socket:
                await socket.run(input="SECRETPROMPT")
    receipts = [line for line in lines if line["event"] == "create"]
    wanted = {
        "event": "create",
        "log_level": "info",
        "response_id": parent["id"],
        "tenant": "default",
        "principal": "user:local",
        "agent": "default",
        "model": "antiphon/echo",
        "store": True,
        "stream": False,
        "has_previous_response_id": False,
        "has_conversation": False,
        "tools": 2,
    }
    assert receipts[0] == wanted
    assert len(receipts) == 3
    assert {key: receipts[1][key] for key in ("store", "stream", "has_previous_response_id", "tools")} == {
        "store": False,
        "stream": True,
        "has_previous_response_id": True,
        "tools": 0,
    }
    assert "SECRET" not in repr(lines)


async def everything(url: str, key: str) -> None:
    """Say every secret in every place, with failures, crashes and refusals."""
    own = {"authorization": f"Bearer {key}", "cookie": "SECRETCOOKIE=1"}
    fields: dict[str, Any] = {
        "instructions": "SECRETRULES",
        "metadata": {"k": "SECRETMETA"},
        "tools": [
            {
                "type": "mcp",
                "server_label": "m",
                "server_url": "https://x?k=SECRETQUERY",
                "authorization": "SECRETMCP",
            }
        ],
    }
    async with httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:

        async def post(headers: dict[str, str] | None = None, **sent: Any) -> httpx2.Response:
            given = {**own, **(headers or {})}
            return await client.post(
                "/v1/responses", json=body("SECRETPROMPT", **{**fields, **sent}), headers=given
            )

        token = {"x-upstream-authorization": "SECRETTHEIRTOKEN"}
        first = await post(token, model="m")
        assert first.status_code == 200, first.text
        (call_id,) = [item["call_id"] for item in first.json()["output"] if item["type"] == "function_call"]
        output = [{"type": "function_call_output", "call_id": call_id, "output": "SECRETTOOL"}]
        sent = {**body(output, "m", **fields), "previous_response_id": first.json()["id"]}
        assert (await client.post("/v1/responses", json=sent, headers=own)).status_code == 429
        assert (await post(model="antiphon/script:crash")).status_code == 500
        assert (await post(model="antiphon/script:broken")).status_code == 500
        assert (await post(temperature="SECRETPROMPT")).status_code == 400
        assert (await post({"authorization": "Bearer SECRETWRONG"})).status_code == 401
        assert (await client.get("/v1/models?key=SECRETKEY", headers=own)).status_code == 200
        malformed = {**own, "content-type": "application/json"}
        refused = await client.post("/v1/responses", content=b'{"input":"SECRETPROMPT', headers=malformed)
        assert refused.status_code == 400
    async with ws_client(url.replace("http", "ws", 1) + "/v1/responses?key=SECRETKEY", api_key=key) as socket:
        await socket.send_raw('{"type":"response.create","input":"SECRETPROMPT')
        await socket.recv_error()
        await socket.create(model="antiphon/script:crash", input="SECRETPROMPT")
        await socket.collect_run()


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_no_log_line_holds_a_secret_not_even_the_traceback_of_a_crash(
    tmp_path: Path, log_format: str
) -> None:
    handler = stub.in_turn(
        stub.calls(("f", '{"a":"SECRETARGS"}')),
        stub.answering(429, {"error": {"message": "Key SECRETOURTOKEN is bad", "code": "c"}}),
    )
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    crash = "[[turns]]\n[[turns.steps]]\ntext='SECRETOUTPUT'\n[[turns.steps]]\ncrash='it broke'"
    (scripts / "crash.toml").write_text(crash)
    (scripts / "broken.toml").write_text("[[turns]]\nnonsense=1")
    async with StubUpstream(handler) as upstream:
        digest = key_of("SECRETKEY")["sha256"]
        (tmp_path / "antiphon.toml").write_text(
            f"auth='required'\n[[key]]\nsha256='{digest}'\n[[upstream]]\nname='u'\nurl='{upstream.url}'\n"
            "key='SECRETOURTOKEN'\nmodels=['m']\ncaller_key=true\n[tools]\nmcp_allowed_hosts=['x']\n"
        )
        env = {"ANTIPHON_LOG_FORMAT": log_format, "ANTIPHON_LOG_LEVEL": "debug"}
        async with ServerProcess(tmp_path, env) as server:
            await everything(server.url, "SECRETKEY")
            server.signal(15)
            await server.wait()
    text = server.log.read_text()
    assert "run_crashed" in text and "it broke" in text and "Traceback" in text
    for what, secret in SECRETS.items():
        assert secret not in text, f"the log holds the {what}"
    assert digest not in text
    if log_format == "json":
        lines = [json.loads(line) for line in text.splitlines()]
        assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
        assert [line["event"] for line in lines].count("create") == 5
        assert all("run_id" not in line for line in lines)
        of_runs = [line for line in lines if line["event"] in ("create", "create_refused", "run_crashed")]
        assert all(line["response_id"].startswith("resp_") for line in of_runs)


async def test_a_refused_key_is_in_no_answer_either() -> None:
    async with running_server(auth="required", key=[key_of("x")]) as server, http(server, "SECRETWRONG") as client:
        answer = await client.get("/v1/models")
        assert answer.status_code == 401 and "SECRETWRONG" not in answer.text
        await asyncio.sleep(0)
