"""STUB: an MCP server made with the official package, with tools that behave badly on request.

    python mcp_program.py stdio NOTES [options]
    python mcp_program.py http NOTES [options]     # prints its port

Each list, call and HTTP request is noted as a line of the file NOTES.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ANY = {"type": "object"}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": TEXT,
    "look": ANY,
    "hang": ANY,
    "die": ANY,
    "big": {"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]},
    "fail": ANY,
    "structured": ANY,
    "picture": ANY,
    "variable": TEXT,
}

options = argparse.ArgumentParser()
options.add_argument("kind", choices=["stdio", "http"])
options.add_argument("notes")
options.add_argument("--many", type=int, default=0)
options.add_argument("--port", type=int, default=0)
options.add_argument("--list", choices=["good", "die", "hang", "endless", "bad-schema"], default="good")
options.add_argument("--noise", action="store_true")
options.add_argument("--complain", type=int, default=0, help="lines for standard error")
given = options.parse_args()


def note(line: str) -> None:
    with open(given.notes, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def tool(name: str, schema: dict[str, Any]) -> types.Tool:
    reads = types.ToolAnnotations(read_only_hint=True) if name == "look" else None
    return types.Tool(name=name, description=f"Does {name}.", input_schema=schema, annotations=reads)


async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    note("list")
    if given.list == "die":
        os._exit(3)
    if given.list == "hang":
        await anyio.sleep_forever()
    tools = [tool(name, schema) for name, schema in TOOLS.items()]
    tools += [tool(f"tool_{n}", ANY) for n in range(given.many)]
    if given.list == "bad-schema":
        tools.append(tool("crooked", {"type": "object", "properties": {"a": {"type": "no such type"}}}))
        tools.append(tool("astray", {"type": "object", "$ref": "http://127.0.0.1:1/schema.json"}))
    return types.ListToolsResult(tools=tools, next_cursor="more" if given.list == "endless" else None)


def answer(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **more)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    note(f"call {params.name}")
    arguments = params.arguments or {}
    match params.name:
        case "hang":
            try:
                await anyio.sleep_forever()
            finally:
                note("stopped hang")
        case "die":
            os._exit(4)
        case "big":
            return answer("x" * arguments["bytes"])
        case "fail":
            return answer("the cupboard is bare", is_error=True)
        case "structured":
            return types.CallToolResult(content=[], structured_content={"answer": 42})
        case "picture":
            return types.CallToolResult(
                content=[types.ImageContent(type="image", data="AAAA", mime_type="image/png")]
            )
        case "variable":
            return answer(os.environ.get(arguments["text"], "not set"))
        case "look":
            return answer("seen")
        case _:
            return answer(str(arguments.get("text", "")))
    raise AssertionError


server: Server[Any] = Server("program", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio() -> None:
    if given.noise:
        print("Welcome! This is no JSON.", flush=True)
    for number in range(given.complain):
        print(f"complaint {number} " + "x" * 2000, file=sys.stderr, flush=True)
    note(f"start {os.getpid()}")
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http() -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", given.port))
    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner = server.streamable_http_app(transport_security=open_to_all)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            note("http " + json.dumps({**headers, "query": scope["query_string"].decode()}))
            if headers.get("x-redirect"):
                head = {"type": "http.response.start", "status": 307}
                await send({**head, "headers": [(b"location", headers["x-redirect"].encode())]})
                await send({"type": "http.response.body", "body": b""})
                return
            if headers.get("authorization") == "Bearer wrong-token":
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"no such token: wrong-token"})
                return
        await inner(scope, receive, send)

    listener.listen(128)
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="critical")).serve(sockets=[listener])


if __name__ == "__main__":
    anyio.run(serve_stdio if given.kind == "stdio" else serve_http)
    sys.exit(0)
