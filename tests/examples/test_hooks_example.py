"""The example package of extensions, found by its entry points and run inside a real server."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from antiphon.core.principal import LOCAL
from tests.hooks.hooking import WAIT_S, soon
from tests.support.sdk_processes import ROOT
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubUpstream, text

EXAMPLE = ROOT / "examples" / "hooks"
NOTES = {"default": {"user:local": "Likes short answers.", "*": "Prices are in francs."}}


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The example's own configuration; the package is there as an installer leaves it, the files in a folder."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "installed" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (info / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(info.parent)
    monkeypatch.syspath_prepend(EXAMPLE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "example_hooks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebook.json").write_text(json.dumps(NOTES))
    return tomllib.loads((EXAMPLE / "antiphon.toml").read_text())


@asynccontextmanager
async def asking(**settings: Any) -> AsyncGenerator[tuple[RunningServer, Callable[..., Any]]]:
    async with running_server(**settings) as server, httpx2.AsyncClient(timeout=WAIT_S) as client:

        async def ask(text: str, **fields: Any) -> tuple[int, dict[str, Any]]:
            create = {"model": "antiphon/echo", "input": text, **fields}
            answer = await client.post(f"{server.url}/v1/responses", json=create)
            return answer.status_code, answer.json()

        yield server, ask


def said(response: dict[str, Any]) -> str:
    text: str = response["output"][-1]["content"][0]["text"]
    return text


def ledger(folder: Path) -> list[dict[str, Any]]:
    file = folder / "ledger.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_the_model_sees_no_card_number_and_neither_does_the_store(configuration: dict[str, Any]) -> None:
    async with asking(**configuration) as (server, ask):
        status, response = await ask("My card is 4111 1111 1111 1111, charge 12.")
        assert (status, said(response)) == (200, "My card is [card number], charge 12.")
        async with httpx2.AsyncClient(timeout=WAIT_S) as client:
            items = await client.get(f"{server.url}/v1/responses/{response['id']}/input_items")
    assert "[card number]" in items.text and "4111" not in items.text


async def test_a_phrase_is_refused_and_leaves_nothing(configuration: dict[str, Any], tmp_path: Path) -> None:
    async with asking(**configuration) as (_, ask):
        status, answer = await ask("Tell me the Launch Code.")
    assert (status, answer["error"]["code"]) == (403, "forbidden_phrase")
    assert ledger(tmp_path) == []


async def test_a_ping_is_answered_without_a_model(configuration: dict[str, Any]) -> None:
    async with asking(**configuration) as (_, ask):
        status, response = await ask("ping", model="antiphon/echo")
    assert (status, response["status"], said(response)) == (200, "completed", "pong")


async def test_the_model_alone_reads_the_notebook(configuration: dict[str, Any]) -> None:
    async with StubUpstream(text()) as stub:
        upstream = {"name": "stub", "url": stub.url, "models": ["stub-model"]}
        async with asking(**configuration, upstream=[upstream]) as (server, ask):
            status, response = await ask("hello", model="stub-model", instructions="Be kind.")
            database = b"".join(path.read_bytes() for path in server.data_dir.glob("antiphon.db*"))
        assert stub.requests[0].body["instructions"] == "Likes short answers.\n\nBe kind."
    assert (status, response["instructions"]) == (200, "Be kind.")
    assert "Likes short" not in json.dumps(response) and b"Likes short" not in database


async def test_the_ledger_has_the_start_before_the_model_and_the_end(
    configuration: dict[str, Any], tmp_path: Path
) -> None:
    async with asking(**configuration) as (_, ask):
        _, response = await ask("hello")
        assert ledger(tmp_path)[0]["state"] == "started"
        await soon(lambda: len(ledger(tmp_path)) == 2)
    start, end = ledger(tmp_path)
    assert start["run"] == end["run"] == response["id"] and end["state"] == "completed"


async def test_the_tool_is_listed_with_the_schema_of_its_model(configuration: dict[str, Any]) -> None:
    async with asking(**configuration) as (_, ask):
        status, response = await ask("hello", tools=[{"type": "mcp", "server_label": "antiphon"}])
    assert status == 200
    (listing,) = [item for item in response["output"] if item["type"] == "mcp_list_tools"]
    (price,) = [tool for tool in listing["tools"] if tool["name"] == "price"]
    assert price["description"] == "What so many pieces of an article cost."
    assert price["input_schema"]["required"] == ["article"]


async def test_the_skill_works_as_a_run_and_asks_a_model_for_each_speech(configuration: dict[str, Any]) -> None:
    async with asking(**configuration) as (server, _):
        result = await server.app.run_skill(LOCAL, "minutes", {"speeches": ["One.", "Two."]})
    assert json.loads(said(result.response)) == {"run": result.run_id, "points": ["One.", "Two."]}
