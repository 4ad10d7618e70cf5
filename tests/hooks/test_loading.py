"""From the configuration to extensions that run, and every mistake in it that stops the start with one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from antiphon.core.run_state import RunState
from antiphon.errors import StartupError
from antiphon.governance.hooks.build import OperatorHooks, build_hooks
from antiphon.hooks import ContextRequest, SkillDispatch
from antiphon.ops.lifecycle import Lifecycle
from antiphon.settings import Settings
from antiphon.settings.loading import load_settings
from antiphon.tools.http_client import open_client
from antiphon.tools.http_context import HttpContext
from tests.hooks import sample_hooks
from tests.hooks.hooking import ANN, WAIT_S, asked, started
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.upstream.calling import FastClock

HOME = "tests.hooks.sample_hooks"
RUN = ContextRequest("acme", "user:ann", "reviewer", "conv_1", "resp_1", "system")


def entry(attribute: str, /, **more: Any) -> dict[str, Any]:
    return {"name": "mine", "entry": f"{HOME}:{attribute}", **more}


def facts(attribute: str, /, **more: Any) -> dict[str, Any]:
    return {"kind": "python", **entry(attribute, **more)}


@asynccontextmanager
async def hooks(**settings: Any) -> AsyncGenerator[OperatorHooks]:
    client = open_client()
    try:
        built = build_hooks(Settings(**settings), lambda one: HttpContext(one, client))
        yield built
        async with asyncio.timeout(WAIT_S):
            await built.aclose()
    finally:
        await client.aclose()


# What works


async def test_without_configuration_every_run_goes_through_untouched() -> None:
    async with hooks() as built:
        request = asked()
        assert (await built.middlewares.enter(request)).request is request
        assert built.context.choose(None) == ()
        assert await built.observers.started(started()) == ()


async def test_a_middleware_is_a_function_or_what_a_class_or_a_function_makes_of_the_options() -> None:
    tables = [
        entry("passing", name="a"),
        entry("renaming", name="b", options={"agent": "reviewer"}),
        entry("Answering", name="c", options={"text": "42"}),
    ]
    async with hooks(middleware=tables) as built:
        passage = await built.middlewares.enter(asked())
        passage.abandon()
    assert passage.changed == [{"by": "b", "fields": ["agent"]}]
    assert passage.by == "c" and passage.reply is not None and passage.reply.text == "42"


async def test_the_order_of_the_file_is_the_order_around_the_run() -> None:
    tables = [
        entry("renaming", name="b", options={"agent": "first"}),
        entry("renaming", name="a", options={"agent": "second"}),
    ]
    async with hooks(middleware=tables) as built:
        passage = await built.middlewares.enter(asked())
        passage.abandon()
    assert passage.request.agent == "second"
    assert [change["by"] for change in passage.changed] == ["b", "a"]


async def test_a_context_provider_is_an_object_or_made_of_the_options() -> None:
    tables = [facts("FACTS", name="a"), facts("Facts", name="b", options={"fact": "Sand is dry."})]
    async with hooks(context=tables) as built:
        gathered = await built.context.gather(built.context.choose(None), RUN)
    assert gathered.text == "Snow is cold. (acme/reviewer)\n\nSand is dry. (acme/reviewer)"


async def test_files_lie_in_the_data_folder_unless_a_path_says_otherwise(tmp_path: Path) -> None:
    for folder in ("context", "facts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "all.md").write_text(f"From {folder}.")
    tables = [{"name": "a", "kind": "file"}, {"name": "b", "kind": "file", "path": "facts"}]
    async with hooks(context=tables, data_dir=tmp_path) as built:
        gathered = await built.context.gather(built.context.choose(None), RUN)
    assert gathered.text == "From context.\n\nFrom facts."


async def test_a_service_is_asked() -> None:
    async def answer(request: StubRequest, conn: StubConn) -> None:
        conn.answer(200, {"text": f"{request.body['agent']} likes tea."})

    async with StubUpstream(answer) as stub:
        table = {"name": "a", "kind": "http", "url": stub.url, "timeout_s": WAIT_S}
        async with hooks(context=[table]) as built:
            gathered = await built.context.gather(("a",), RUN)
    assert gathered.text == "reviewer likes tea."


async def test_an_observer_hears_the_lifecycle_log_and_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(sample_hooks, "heard", heard)
    lifecycle = Lifecycle("epoch", FastClock())
    state = RunState("resp_1", "conv_1", "acme", "user:ann", "m", "u", "http", "e", 1.0, 1.0)
    async with hooks(observer=[entry("note", options={"mark": "x"}, timeout_s=WAIT_S)]) as built:
        lifecycle.observe(built.observers.told)
        lifecycle.record("run.created", state)
        await built.observers.started(started())
        lifecycle.record("run.started", state)
        lifecycle.record("run.completed", state, {"usage": None, "cost": None, "code": None, "by": None})
    assert heard == [("x", "started", "resp_1"), ("x", "completed", "resp_1")]


async def test_an_observer_reads_the_row_and_the_data_of_an_event() -> None:
    entries: list[Any] = []
    lifecycle = Lifecycle("epoch", FastClock())
    state = RunState("resp_1", "conv_1", "acme", "user:ann", "m", "u", "http", "e", 1.0, 1.0)

    async def note(event: Any) -> None:
        entries.append(event)

    async with hooks() as built:
        built.dispatcher.subscribe("run.usage", note, name="x")
        lifecycle.observe(built.observers.told)
        kept = lifecycle.record("run.usage", state, {"input": 1, "output": 2, "cost": 0.5, "estimated": False})
    (usage,) = entries
    assert (usage.tenant, usage.run_id, usage.at) == ("acme", "resp_1", kept.at)
    assert usage.run == orjson.loads(kept.encoded_row) and usage.cost == 0.5


async def test_a_skill_has_the_id_of_its_table_and_an_observer_may_know_more() -> None:
    async with hooks(skill=[entry("counting", name="count")], observer=[entry("know_more")]) as built:
        count = SkillDispatch("count", {"text": "hello"}, "resp_1")
        assert await built.skills.execute(count, ANN, lambda create: None) == '{"characters":5,"for":"acme"}'  # type: ignore[arg-type,return-value]
        elsewhere = SkillDispatch("elsewhere", {}, "resp_1")
        assert await built.skills.execute(elsewhere, ANN, lambda create: None) == '"found"'  # type: ignore[arg-type,return-value]


async def test_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "one", **{"antiphon.middleware": f"mine = {HOME}:passing"})
    async with hooks(middleware=[{"name": "mine"}]) as built:
        assert built.dispatcher.listens("agent.run")


async def test_what_two_packages_bring_under_one_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "one", **{"antiphon.skills": f"mine = {HOME}:counting"})
    install(tmp_path, monkeypatch, "two", **{"antiphon.skills": f"mine = {HOME}:nothing_else"})
    with pytest.raises(StartupError, match="skill 'mine': several installed packages have it"):
        async with hooks(skill=[{"name": "mine"}]):
            pass


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, **groups: str) -> None:
    """What an installer leaves behind of a package with entry points."""
    info = folder / package / f"{package}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{line}\n" for group, line in groups.items()))
    monkeypatch.syspath_prepend(folder / package)


# What does not


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"middleware": [{"name": "mine"}]},
            "no installed package has it as an entry point of antiphon.middleware",
        ),
        ({"middleware": [{"name": "mine", "entry": "json"}]}, "entry must be package.module:name"),
        ({"middleware": [{"name": "mine", "entry": "no.such:thing"}]}, "cannot be loaded (ModuleNotFoundError"),
        ({"middleware": [entry("missing")]}, "cannot be loaded (AttributeError"),
        ({"middleware": [entry("NOT_CALLABLE")]}, "it is no function and no class"),
        ({"middleware": [entry("alone")]}, "it must take (request, next)"),
        ({"middleware": [entry("passing", options={"a": 1})]}, "an async function takes no options"),
        ({"middleware": [entry("synchronous")]}, "cannot be made with its options (TypeError"),
        ({"middleware": [entry("Synchronous")]}, "it has to be async"),
        (
            {"middleware": [entry("Answering", options={"txt": "42"})]},
            "cannot be made with its options (TypeError",
        ),
        ({"middleware": [entry("leaving")]}, "cannot be made with its options (SystemExit"),
        ({"context": [facts("Silent")]}, "needs an async method get_context_for_run, or get_context"),
        ({"context": [facts("SynchronousFacts")]}, "needs an async method"),
        ({"context": [facts("NOT_CALLABLE")]}, "needs an async method"),
        ({"context": [facts("Facts", options={"facts": 1})]}, "cannot be made with its options (TypeError"),
        ({"context": [{"name": "mine", "kind": "python"}]}, "as an entry point of antiphon.context"),
        ({"observer": [entry("note_unknown")]}, "IllegalDispatch: there is no event 'run.finished'"),
        ({"observer": [entry("note_synchronously")]}, "has to be an async function"),
        ({"observer": [entry("note_requests")]}, "agent.run is for [[middleware]]"),
        ({"observer": [entry("note_asynchronously")]}, "has to be a plain function of (subscriptions, **options)"),
        ({"observer": [{"name": "mine"}]}, "as an entry point of antiphon.observers"),
        ({"skill": [entry("alone")]}, "it must take (dispatch, context)"),
        ({"skill": [{"name": "mine"}]}, "as an entry point of antiphon.skills"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_extension_that_cannot_work_stops_the_start_with_one_line(tables: Any, said: str) -> None:
    with pytest.raises(StartupError) as caught:
        async with hooks(**tables):
            pass
    message = caught.value.message
    assert said in message and "'mine'" in message and "\n" not in message


async def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(StartupError) as caught:
        async with hooks(middleware=[{"name": "a"}], skill=[{"name": "b"}], context=[facts("Silent", name="c")]):
            pass
    assert [line.split(":")[0] for line in caught.value.message.splitlines()] == [
        "middleware 'a'",
        "context 'c'",
        "skill 'b'",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"middleware": [entry("passing"), entry("passing")]}, "two of them are named 'mine'"),
        ({"context": [facts("Facts"), facts("Facts")]}, "two of them are named 'mine'"),
        ({"observer": [entry("note"), entry("note")]}, "two of them are named 'mine'"),
        ({"skill": [entry("counting"), entry("counting")]}, "two of them are named 'mine'"),
        ({"context": [{"name": "a", "kind": "file", "url": "http://x"}]}, "url does not belong to kind 'file'"),
        ({"context": [{"name": "a", "kind": "http", "path": "x"}]}, "path does not belong to kind 'http'"),
        ({"context": [{"name": "a", "kind": "http", "entry": "x:y"}]}, "entry does not belong to kind 'http'"),
        ({"context": [{"name": "a", "kind": "http"}]}, "needs a url with http:// or https://"),
        ({"context": [{"name": "a", "kind": "http", "url": "file:///etc"}]}, "needs a url with http:// or https"),
        ({"middleware": [{"name": "a b"}]}, "String should match pattern"),
        ({"middleware": [{"name": "a", "timeout_s": 0}]}, "greater than 0"),
        ({"middleware": [{"name": "a", "entri": "x:y"}]}, "Extra inputs are not permitted"),
        ({"hooks": {"chain_s": 3}}, "Extra inputs are not permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_says_something_wrong_is_refused(settings: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**settings)
    assert len(caught.value.errors()) == 1 and said in caught.value.errors()[0]["msg"]


def test_a_variable_named_for_a_header_is_a_known_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(
        '[[context]]\nname = "notes"\nkind = "http"\nurl = "http://127.0.0.1:9"\n'
        'headers_env = { Authorization = "ANTIPHON_NOTES_KEY" }\n'
    )
    monkeypatch.setenv("ANTIPHON_NOTES_KEY", "Bearer quite-secret")
    settings, _ = load_settings(file, data_dir=tmp_path)
    assert settings.context[0].name == "notes" and "quite-secret" not in repr(settings)
