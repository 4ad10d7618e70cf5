"""Which upstream gets a model, and what the list of models shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from antiphon.errors import RequestError, StartupError, UpstreamError
from antiphon.ports import ModelCall
from antiphon.settings import Settings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.build import build_upstreams
from antiphon.upstream.router import UpstreamRouter
from tests.support.stub_upstream import StubUpstream
from tests.upstream.calling import FastClock, SystemClock, events_of, model_call


class Fake:
    """An upstream that only lists models. gate: set when it may answer. asked: how often it was asked."""

    tools: tuple[str, ...] = ()

    def __init__(self, name: str, names: Sequence[str] | UpstreamError = (), *, slow: bool = False) -> None:
        self.name = name
        self.names = names
        self.asked = 0
        self.closed = False
        self.gate = asyncio.Event()
        if not slow:
            self.gate.set()

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        yield []

    async def models(self) -> Sequence[str]:
        self.asked += 1
        await self.gate.wait()
        if isinstance(self.names, UpstreamError):
            raise self.names
        return self.names

    async def aclose(self) -> None:
        self.closed = True


DOWN = UpstreamError("down", code="upstream_unavailable")


def router(
    *upstreams: tuple[Fake, Sequence[str] | None], clock: FastClock | SystemClock | None = None
) -> UpstreamRouter:
    configured = [
        (UpstreamSettings(name=fake.name, url="http://x/v1", models=None if names is None else tuple(names)), fake)
        for fake, names in upstreams
    ]
    builtins = {"antiphon/echo": Fake("echo"), "antiphon/script:": Fake("script", ["antiphon/script:slow"])}
    return UpstreamRouter(configured, builtins, clock or FastClock())


async def where(routes: UpstreamRouter, model: str) -> str:
    upstream, name, settings = await routes.resolve(model)
    assert name == model
    assert settings is None or settings.name == upstream.name
    return upstream.name


async def refused(routes: UpstreamRouter, model: str) -> None:
    with pytest.raises(RequestError) as caught:
        await routes.resolve(model)
    assert (caught.value.code, caught.value.param, caught.value.status) == ("model_not_found", "model", 404)
    assert repr(model) in caught.value.message


async def test_built_in_names_work_without_any_upstream() -> None:
    routes = router()
    assert await where(routes, "antiphon/echo") == "echo"
    assert await where(routes, "antiphon/script:slow") == "script"
    for model in ("gpt", "", "antiphon/other", "antiphon/script:none", "antiphon/script:", "antiphon/"):
        await refused(routes, model)


async def test_configured_names_are_routed_without_asking_anybody() -> None:
    a, b = Fake("a"), Fake("b")
    routes = router((a, ["x"]), (b, ["x", "y"]))
    assert [await where(routes, model) for model in ("x", "y")] == ["a", "b"]
    await refused(routes, "z")
    assert (a.asked, b.asked) == (0, 0)


async def test_a_configured_name_wins_over_one_that_is_only_listed() -> None:
    listed, configured = Fake("listed", ["x"]), Fake("configured")
    assert await where(router((listed, None), (configured, ["x"])), "x") == "configured"


async def test_an_empty_configured_list_serves_nothing() -> None:
    await refused(router((Fake("a"), [])), "x")


async def test_listed_names_are_asked_once_in_60_s() -> None:
    clock = FastClock()
    a, b = Fake("a", ["x"]), Fake("b", ["y"])
    routes = router((a, None), (b, None), clock=clock)
    for _ in range(3):
        assert [await where(routes, model) for model in ("x", "y")] == ["a", "b"]
        await refused(routes, "z")
    assert (a.asked, b.asked) == (1, 1)
    a.names = ["z"]
    clock.at += 61
    assert await where(routes, "z") == "a"
    assert a.asked == 2


async def test_many_at_once_ask_once() -> None:
    a = Fake("a", ["x"], slow=True)
    routes = router((a, None))
    everybody = [asyncio.create_task(where(routes, "x")) for _ in range(20)]
    await asyncio.sleep(0)
    a.gate.set()
    assert set(await asyncio.gather(*everybody)) == {"a"}
    assert a.asked == 1


async def test_a_failing_list_hides_nobody_elses_models() -> None:
    a, b = Fake("a", DOWN), Fake("b", ["y"])
    routes = router((a, None), (b, None))
    assert await where(routes, "y") == "b"
    assert [m["id"] for m in await routes.models() if m["owned_by"] != "antiphon"] == ["y"]


async def test_a_failed_list_is_asked_again_soon_and_meanwhile_the_last_one_counts() -> None:
    clock = FastClock()
    a, b = Fake("a", ["x"]), Fake("b", ["y"])
    routes = router((a, None), (b, None), clock=clock)
    await where(routes, "x")
    a.names = DOWN
    clock.at += 61
    await refused(routes, "z")
    assert await where(routes, "x") == "a"
    a.names = ["x", "z"]
    clock.at += 6
    assert await where(routes, "z") == "a"


async def test_a_list_that_does_not_come_blocks_for_two_seconds_and_only_once() -> None:
    slow, quick = Fake("slow", ["x"], slow=True), Fake("quick", ["y"])
    routes = router((slow, None), (quick, None), clock=SystemClock())
    loop = asyncio.get_running_loop()
    start = loop.time()
    # Nobody else can be asked, so the one that said nothing may have it.
    assert await where(routes, "z") == "slow"
    assert loop.time() - start < 3
    start = loop.time()
    assert await where(routes, "y") == "quick"
    await where(routes, "z")
    assert loop.time() - start < 1
    slow.gate.set()
    await asyncio.sleep(0)
    assert await where(routes, "x") == "slow"
    await refused(routes, "z")
    assert slow.asked == 1
    await routes.aclose()


@pytest.mark.parametrize("names", [DOWN, ()])
async def test_unknown_names_go_to_the_only_upstream_whose_models_are_unknown(names: Sequence[str]) -> None:
    assert await where(router((Fake("a", names), None)), "anything") == "a"
    assert await where(router((Fake("a", names), None), (Fake("b"), ["x"])), "anything") == "a"
    await refused(router((Fake("a", names), None), (Fake("b", DOWN), None)), "anything")
    await refused(router((Fake("a", names), None)), "antiphon/anything")


async def test_the_list_shows_every_model_once_with_its_owner() -> None:
    routes = router((Fake("a"), ["x"]), (Fake("b", ["x", "y"]), None))
    assert await routes.models() == [
        {"id": name, "object": "model", "created": 1000, "owned_by": owner}
        for name, owner in (
            ("antiphon/echo", "antiphon"),
            ("antiphon/script:slow", "antiphon"),
            ("x", "a"),
            ("y", "b"),
        )
    ]


async def test_closing_closes_every_upstream_and_gives_up_questions() -> None:
    a, b = Fake("a", slow=True), Fake("b")
    routes = router((a, None), (b, ["x"]))
    question = asyncio.create_task(routes.models())
    await asyncio.sleep(0)
    await routes.aclose()
    assert (a.closed, b.closed) == (True, True)
    await asyncio.wait_for(question, 1)


# Built from settings


def settings(folder: Path, *upstreams: UpstreamSettings) -> Settings:
    return Settings(data_dir=folder / "data", upstream=upstreams)


async def test_settings_make_upstreams_built_ins_and_script_folders(tmp_path: Path) -> None:
    for folder, name in ((tmp_path / "data" / "scripts", "of_data"), (tmp_path / "scripts", "of_config")):
        folder.mkdir(parents=True)
        (folder / f"{name}.toml").write_text("[[turns]]")
    async with StubUpstream(models=["m1"]) as server:
        one = UpstreamSettings(name="stub", url=server.url)
        routes = build_upstreams(settings(tmp_path, one), SystemClock(), tmp_path / "antiphon.toml")
        names = {model["id"]: model["owned_by"] for model in await routes.models()}
        assert names["m1"] == "stub"
        assert {"antiphon/echo", "antiphon/demo", "antiphon/script:slow"} <= set(names)
        assert {"antiphon/script:of_data", "antiphon/script:of_config"} <= set(names)
        for model in ("m1", "antiphon/echo", "antiphon/script:of_data"):
            upstream, name, _ = await routes.resolve(model)
            assert await events_of(upstream, model_call(model=name))
        await routes.aclose()


async def test_two_upstreams_of_one_name_stop_the_start(tmp_path: Path) -> None:
    same = UpstreamSettings(name="same", url="http://127.0.0.1/v1")
    with pytest.raises(StartupError, match="same"):
        build_upstreams(settings(tmp_path, same, same), SystemClock())
