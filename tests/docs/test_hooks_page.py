"""docs/hooks.md: its configurations are valid, its Python does what it says, its numbers are the settings'."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.principal import Principal
from antiphon.errors import Deny
from antiphon.governance.hooks.build import OperatorHooks, build_hooks
from antiphon.governance.hooks.events import EVENTS
from antiphon.hooks import ContextRequest, RunEnded, SkillDispatch
from antiphon.settings import Settings
from antiphon.settings.hooks import (
    ContextSettings,
    HooksSettings,
    MiddlewareSettings,
    ObserverSettings,
)
from antiphon.tools.http_context import HttpContexts
from tests.docs.test_documents import ROOT, _blocks
from tests.hooks.hooking import ANN, WAIT_S, asked, soon, started
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream

PAGE = ROOT / "docs" / "hooks.md"


def tables() -> dict[str, Any]:
    """The page's configurations as one."""
    joined: dict[str, Any] = {}
    for text in _blocks(PAGE, "toml"):
        for name, rows in tomllib.loads(text).items():
            joined[name] = [*joined.get(name, []), *rows]
    return joined


@pytest.fixture
def our_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's Python as one module."""
    (tmp_path / "our_hooks.py").write_text("\n".join(_blocks(PAGE, "python")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_hooks", raising=False)
    monkeypatch.setenv("MEMORY_AUTHORIZATION", "Bearer quite-secret")
    yield lambda: sys.modules["our_hooks"]
    sys.modules.pop("our_hooks", None)


@asynccontextmanager
async def hooks(data_dir: Path, **more: Any) -> AsyncGenerator[OperatorHooks]:
    http = HttpContexts()
    built = build_hooks(Settings(data_dir=data_dir, **{**tables(), **more}), http)
    try:
        yield built
        async with asyncio.timeout(WAIT_S):
            await built.aclose()
    finally:
        await http.aclose()


async def test_the_middleware_of_the_page_does_what_it_says(our_hooks: Any, tmp_path: Path) -> None:
    async with hooks(tmp_path) as built:
        passage = await built.middlewares.enter(asked("Ann meets Bob"))
        assert passage.request.texts() == ["somebody meets somebody"]
        passage.abandon()
        passage = await built.middlewares.enter(asked("ping"))
        assert passage.reply is not None and passage.reply.text == "pong"
        passage.abandon()
        with pytest.raises(Deny) as denied:
            await built.middlewares.enter(asked("hi", principal=Principal("user:eve", "guests", "driver")))
    assert (denied.value.code, denied.value.status) == ("guests_only_read", 403)


async def test_the_context_providers_of_the_page_are_asked_as_it_says(our_hooks: Any, tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "all.md").write_text("Be short.")
    (sent,) = (json.loads(text) for text in _blocks(PAGE, "json"))
    run = ContextRequest(**sent)
    assert asdict(run) == sent

    async def answer(request: StubRequest, conn: StubConn) -> None:
        assert request.body == sent and request.authorization == "Bearer quite-secret"
        conn.answer(200, {"text": "Ann likes tea."})

    async with StubUpstream(answer) as stub:
        context = [{**table, "timeout_s": WAIT_S} for table in tables()["context"]]
        for table in context:
            table.update({"url": stub.url} if table["kind"] == "http" else {})
        async with hooks(tmp_path, context=context) as built:
            assert built.context.choose(None) == ("notes", "house-rules")
            gathered = await built.context.gather(built.context.choose(["memory", "notes", "house-rules"]), run)
    assert gathered.text == "Ann likes tea.\n\nYou speak with user:ann.\n\nBe short."


async def test_the_observer_of_the_page_counts(our_hooks: Any, tmp_path: Path) -> None:
    async with hooks(tmp_path) as built:
        totals = our_hooks().totals
        await built.observers.started(started())
        assert totals == {"acme": 0}
        data = {"usage": {"total_tokens": 7}, "cost": None, "code": None, "by": None}
        built.dispatcher.emit("run.completed", RunEnded("run.completed", "acme", "resp_1", {}, data, 1.0))
        await soon(lambda: totals == {"acme": 7})


async def test_the_skill_of_the_page_counts_words(our_hooks: Any, tmp_path: Path) -> None:
    async def ask(create: Mapping[str, Any]) -> Any:
        raise AssertionError

    dispatch = SkillDispatch("count-words", {"text": "one two"}, "resp_1")
    async with hooks(tmp_path) as built:
        assert await built.skills.execute(dispatch, ANN, ask) == '{"words":2,"for":"acme"}'


def test_the_page_names_every_event_that_has_a_payload_of_its_own() -> None:
    rows = re.findall(r"^\| (`(?:run|skill)\..*?) \| .*? \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    told = {event: payload for names, payload in rows for event in re.findall(r"`([\w.]+)`", names)}
    own = {
        name: event.payload.__name__
        for name, event in EVENTS.items()
        if event.payload.__name__ != "RunEvent" and event.mode != "waterfall"
    }
    assert told == own


def test_numbers_of_the_page_are_those_of_the_settings() -> None:
    text = " ".join(PAGE.read_text().split())
    for said, table, key in (
        (r"(\d+) s for each \(`timeout_s`\)", MiddlewareSettings, "timeout_s"),
        (r"(\d+) s for all together \(`hooks.middleware_chain_s`\)", HooksSettings, "middleware_chain_s"),
        (r"longer than `timeout_s` \((\d+) s\)", ContextSettings, "timeout_s"),
        (r"more than `max_bytes` \((\d+)\)", ContextSettings, "max_bytes"),
        (r"at most `timeout_s` \((\d+) s\) for each observer", ObserverSettings, "timeout_s"),
        (r"up to (\d+) may wait for an observer \(`hooks.emit_pending`\)", HooksSettings, "emit_pending"),
        (r"gets (\d+) s \(`hooks.emit_timeout_s`\)", HooksSettings, "emit_timeout_s"),
        (r"waits (\d+) s for observers \(`hooks.drain_s`\)", HooksSettings, "drain_s"),
    ):
        assert float(re.findall(said, text)[0]) == table.model_fields[key].get_default(), said
