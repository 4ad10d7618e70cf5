"""docs/tools.md: its configurations are valid, and its functions and messages are what the server does."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from antiphon.settings import Settings
from tests.docs.test_documents import ROOT, _blocks
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.tools.running import call, named, opened, toolbox

PAGE = ROOT / "docs" / "tools.md"
OWN = {"type": "mcp", "server_label": "antiphon"}


def tables(path: Path = PAGE) -> list[dict[str, Any]]:
    return [tomllib.loads(text) for text in _blocks(path, "toml")]


def tool_table(name: str) -> dict[str, Any]:
    (found,) = [tool for table in tables() for tool in table.get("tool", ()) if tool["name"] == name]
    return dict(found)


@pytest.mark.parametrize("path", [PAGE, ROOT / "docs" / "configuration.md"], ids=lambda path: path.name)
def test_configurations_of_the_page_are_valid_settings(path: Path, tmp_path: Path) -> None:
    assert tables(path)
    for table in tables(path):
        Settings(data_dir=tmp_path, **table)


async def test_the_python_function_of_the_page_does_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = _blocks(PAGE, "python")
    (tmp_path / "shop.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    async with toolbox(tool=[tool_table("price")]) as box, opened(box, OWN) as tools:
        price = named(tools)["price"]
        assert price.spec.description == "What so many pieces of an article cost."
        assert (await call(price, {"name": "pencil", "pieces": 3})).output == '{"price":6,"for":"user:ann"}'
        assert (await call(price, {"name": "pen"})).error == "There is no article 'pen'."


async def test_an_http_function_gets_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    head, _, body = _blocks(PAGE, "http")[0].partition("\n\n")
    monkeypatch.setenv("ORDERS_AUTHORIZATION", "Bearer quite-secret")

    async def found(request: StubRequest, conn: StubConn) -> None:
        conn.answer(200, {"found": True})

    async with StubUpstream(found) as stub:
        table = {**tool_table("find_order"), "url": f"http://127.0.0.1:{stub.port}/orders"}
        async with toolbox(tool=[table]) as box, opened(box, OWN) as tools:
            assert (await call(named(tools)["find_order"], json.loads(body))).error is None
        (request,) = stub.requests
    first, *lines = head.splitlines()
    assert (f"{request.method} {request.path}", request.body) == (first, json.loads(body))
    for line in lines:
        name, _, value = line.partition(": ")
        assert request.headers[name.lower()].startswith(value.removesuffix("...")), line


async def test_a_search_provider_is_asked_and_answers_as_the_page_shows() -> None:
    asked, answer = (json.loads(text) for text in re.findall(r'`(\{"(?:query|results)".*?\})`', PAGE.read_text()))

    async def search(request: StubRequest, conn: StubConn) -> None:
        conn.answer(200, answer)

    async with StubUpstream(search) as stub:
        settings = {"url": stub.url, "results": asked["count"]}
        async with toolbox(web_search=settings) as box, opened(box, {"type": "web_search"}) as tools:
            result = await call(named(tools)["web_search"], {"query": asked["query"]})
        assert stub.requests[0].body == asked
    assert result.output == "1. Bern\nhttps://example.com/bern\nRain."


def test_limits_of_the_page_are_those_of_the_settings() -> None:
    text = PAGE.read_text()
    bounds = Settings.model_fields["tools"].get_default()
    for said, value in (
        (r"else of `\[tools\]`: (\d+) s", bounds.timeout_s),
        (r"`max_output_bytes`: (\d+) MiB", bounds.max_output_bytes / 2**20),
        (r"`tools.fan_out`: (\d+)", bounds.fan_out),
        (r"`tools.list_tools`: (\d+)", bounds.list_tools),
        (r"`tools.list_timeout_s`: (\d+) s", bounds.list_timeout_s),
    ):
        assert float(re.findall(said, text)[0]) == value, said
