"""Context providers: who is asked, what reaches the model, what happens when one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from antiphon.errors import HookError, RequestError, StartupError
from antiphon.governance.context import ContextProviders, Gathered, Provider, PythonSource
from antiphon.governance.context_files import FileSource
from antiphon.governance.hooks.calling import Calls, Failure
from antiphon.hooks import ContextRequest
from antiphon.settings.hooks import ContextSettings
from antiphon.tools.http_client import open_client
from antiphon.tools.http_context import HttpContext
from tests.hooks.hooking import WAIT_S, Uncaught, hang
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream

TOLD = {
    "tenant": "acme",
    "principal": "user:ann",
    "agent": "reviewer",
    "conversation": "conv_1",
    "run_id": "resp_1",
    "source": "community",
}
RUN = ContextRequest(**TOLD)


class Saying:
    """A source in this process."""

    def __init__(self, said: Any) -> None:
        self._said = said

    async def text(self, request: ContextRequest) -> str | None:
        if isinstance(self._said, BaseException):
            raise self._said
        if callable(self._said):
            await self._said()
        text: str | None = self._said
        return text


def provider(name: str, said: Any, **fields: Any) -> Provider:
    return Provider(name, Saying(said), **{"timeout_s": WAIT_S, **fields})


async def gathered(*providers: Provider, names: tuple[str, ...] | None = None) -> Gathered:
    context = ContextProviders(providers, Calls())
    async with asyncio.timeout(WAIT_S):
        return await context.gather(context.choose(names), RUN)


# Who is asked


def names_of(requested: list[str] | None, of_agent: tuple[str, ...] = ()) -> tuple[str, ...]:
    providers = [provider("facts", ""), provider("notes", ""), provider("extra", "", default=False)]
    return ContextProviders(providers, Calls()).choose(requested, of_agent)


def test_a_run_overrides_its_agent_and_its_agent_the_server() -> None:
    assert names_of(None) == ("facts", "notes")
    assert names_of(None, ("extra",)) == ("extra",)
    assert names_of(["notes", "extra", "notes"], ("facts",)) == ("notes", "extra")
    assert names_of([], ("facts",)) == ()


def test_the_wire_can_only_name_what_is_configured() -> None:
    with pytest.raises(RequestError) as caught:
        names_of(["http://evil.example/" + "x" * 200])
    assert caught.value.param == "antiphon.context" and len(caught.value.message) < 150


def test_an_agent_of_the_configuration_that_names_an_unknown_one_stops_the_start() -> None:
    context = ContextProviders([provider("facts", "")], Calls())
    context.check(["facts"], "agent 'reviewer'")
    with pytest.raises(StartupError, match="^agent 'reviewer' names the context provider 'fact', which is not"):
        context.check(["fact"], "agent 'reviewer'")


# What is said


async def test_texts_stand_in_the_order_of_the_names_with_a_blank_line_between_them() -> None:
    one, two, silent = provider("one", " 1\n"), provider("two", "2"), provider("silent", None)
    assert await gathered(one, two, silent) == Gathered("1\n\n2", ())
    assert await gathered(one, two, names=("two", "one")) == Gathered("2\n\n1", ())
    assert await gathered(silent, provider("empty", " \n")) == Gathered(None, ())
    assert await gathered() == Gathered(None, ())


async def test_providers_are_asked_at_once() -> None:
    both = asyncio.Barrier(2)
    await gathered(provider("one", both.wait), provider("two", both.wait))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (ValueError("what ann told us"), "error"),
        (hang, "timeout"),
        ("é" * 6, "too_large"),
        (5, "error"),
        (b"bytes", "error"),
        ("\ud800", "error"),
        (Uncaught(), "error"),
    ],
)
async def test_one_that_fails_is_named_and_costs_nobody_else_anything(said: Any, kind: Any) -> None:
    with capture_logs() as lines:
        failing = provider("notes", said, timeout_s=0.05 if said is hang else WAIT_S, max_bytes=11)
        made = await gathered(failing, provider("facts", "Water is wet."))
    assert made == Gathered("Water is wet.", (Failure("notes", kind),))
    assert made.failed_names == ["notes"]
    (line,) = lines
    assert line["provider"] == "notes" and "what ann told us" not in str(line)


async def test_a_run_fails_without_a_required_one() -> None:
    with pytest.raises(HookError) as caught:
        await gathered(provider("notes", ValueError("x"), required=True), provider("facts", "Water is wet."))
    assert (caught.value.code, caught.value.status) == ("server_error", 500)


async def test_one_that_is_configured_no_longer_counts_as_failed() -> None:
    """A run that is gone on with after a restart may name one that the new configuration has not."""
    context = ContextProviders([provider("facts", "Water is wet.")], Calls())
    with capture_logs() as lines:
        made = await context.gather(("gone", "facts"), RUN)
    assert made == Gathered("Water is wet.", (Failure("gone", "error"),))
    assert lines[0]["providers"] == ["gone"]


# Python


class Both:
    def __init__(self, for_run: str | None) -> None:
        self._for_run = for_run

    async def get_context_for_run(self, **run: str) -> str | None:
        return self._for_run and f"{self._for_run} {sorted(run.items())}"

    async def get_context(self, *, agent: str, tenant: str) -> str:
        return f"short {agent} {tenant}"


async def test_the_long_form_knows_the_run_and_the_short_one_is_asked_if_that_gives_nothing() -> None:
    assert await PythonSource(Both("long")).text(RUN) == f"long {sorted(TOLD.items())}"
    assert await PythonSource(Both(None)).text(RUN) == "short reviewer acme"
    assert await PythonSource(Both("")).text(RUN) == "short reviewer acme"


# Files


def write(folder: Path, **texts: str) -> FileSource:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return FileSource(folder, 1000)


async def test_files_of_everybody_of_the_tenant_and_of_the_agent_come_in_this_order(tmp_path: Path) -> None:
    source = write(tmp_path, all="1\n", acme__all="2", acme__agents__reviewer="3", other__all="never")
    assert await source.text(RUN) == "1\n\n2\n\n3"
    (tmp_path / "all.md").unlink()
    assert await source.text(RUN) == "2\n\n3", "read anew for each run"
    assert await FileSource(tmp_path / "none", 1000).text(RUN) is None


@pytest.mark.parametrize(
    "run",
    [
        ContextRequest("acme", "p", "a/../../../secret", "c", "r", "system"),
        ContextRequest("..", "p", "a", "c", "r", "system"),
        ContextRequest("acme/agents/../../secret", "p", "a", "c", "r", "system"),
        ContextRequest("acme", "p", "../../secret", "c", "r", "system"),
    ],
)
async def test_no_name_leads_out_of_the_folder(run: ContextRequest, tmp_path: Path) -> None:
    folder = tmp_path / "context"
    write(tmp_path, secret="never", all="never", agents__a="never")
    write(folder, acme__agents__a="fine", secret="never")
    assert await FileSource(folder, 1000).text(run) is None


async def test_a_name_that_no_file_can_have_is_one_without_a_file(tmp_path: Path) -> None:
    source = write(tmp_path, all="for all")
    long = ContextRequest("user:" + "%C3%BC" * 256, "p", "a/" * 64, "c", "r", "system")
    assert await source.text(long) == "for all"


async def test_an_agent_with_a_slash_in_its_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "agents"
    folder.mkdir(parents=True)
    (folder / "team%2Fwriter.md").write_text("Write.")
    run = ContextRequest("acme", "p", "team/writer", "c", "r", "system")
    assert await FileSource(tmp_path, 1000).text(run) == "Write."


async def test_a_file_that_is_too_large_or_no_text_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "all.md").write_bytes(b"x" * 1001)
    with pytest.raises(ValueError, match="larger"):
        await FileSource(tmp_path, 1000).text(RUN)
    (tmp_path / "all.md").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="utf-8"):
        await FileSource(tmp_path, 1000).text(RUN)


# HTTP


async def asked_over_http(stub: StubUpstream, **fields: Any) -> str | None:
    client = open_client()
    try:
        one = ContextSettings(name="notes", kind="http", url=stub.url, **fields)
        async with asyncio.timeout(WAIT_S):
            return await HttpContext(one, client).text(RUN)
    finally:
        await client.aclose()


def answering(status: int, body: Any, **headers: str) -> Any:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.answer(status, body, **headers)

    return handler


async def test_a_service_is_told_the_run_and_its_text_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_KEY", "Bearer quite-secret")
    async with StubUpstream(answering(200, {"text": "Ann likes tea."})) as stub:
        assert await asked_over_http(stub, headers_env={"Authorization": "NOTES_KEY"}) == "Ann likes tea."
        (request,) = stub.requests
    assert request.authorization == "Bearer quite-secret"
    assert request.body == TOLD


@pytest.mark.parametrize("answer", [(204, b""), (200, {"text": None})])
async def test_a_service_may_have_nothing_to_say(answer: tuple[int, Any]) -> None:
    async with StubUpstream(answering(*answer)) as stub:
        assert await asked_over_http(stub) is None


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"text": "x"}),
        (404, b"none"),
        (200, b"no json"),
        (200, b"[]"),
        (200, {"texts": "x"}),
        (200, {"text": 5}),
        (200, {"text": "x" * 2000}),
    ],
    ids=repr,
)
async def test_everything_else_is_a_failure(answer: tuple[int, Any]) -> None:
    async with StubUpstream(answering(*answer)) as stub:
        client = open_client()
        try:
            one = ContextSettings(name="notes", kind="http", url=stub.url, max_bytes=100)
            source = Provider("notes", HttpContext(one, client), max_bytes=100, timeout_s=WAIT_S)
            made = await gathered(source)
        finally:
            await client.aclose()
    assert made.text is None and made.failed_names == ["notes"]


async def test_a_redirect_is_not_followed_and_a_service_that_is_away_is_a_failure() -> None:
    async with StubUpstream() as elsewhere, StubUpstream() as stub:
        stub.handler = answering(307, b"", location=elsewhere.url)
        with pytest.raises(Exception, match="answered 307"):
            await asked_over_http(stub)
        assert not elsewhere.requests
    with pytest.raises(Exception, match="could not be reached"):
        await asked_over_http(stub)


def test_a_variable_that_is_not_set_stops_the_start() -> None:
    one = ContextSettings(name="notes", kind="http", url="http://x", headers_env={"Authorization": "NO_SUCH_KEY"})
    with pytest.raises(StartupError, match="^context 'notes' needs the environment variable NO_SUCH_KEY"):
        HttpContext(one, httpx2.AsyncClient())
