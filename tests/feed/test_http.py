"""`/v1/runs` and the feed as Server-Sent Events (PROTOCOL 11.8)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from antiphon_protocol.feed import LiveRuns, RunWithTimeline, TenantList
from tests.feed.test_socket import LIFE, flood, tenants
from tests.feed.watching import Dashboard
from tests.http.calling import UNKNOWN_ID, begin, create, ended, error_of, get, http, slow, until
from tests.support.http_client import SseParser
from tests.support.schemas import validate_own
from tests.support.server import RunningServer, running_server


class Body:
    """A feed that is read as it comes."""

    def __init__(self) -> None:
        self.seen = Dashboard()
        self.ids: list[str] = []
        self.over = asyncio.Event()

    async def read(self, answer: httpx2.Response) -> None:
        parser = SseParser()
        async for chunk in answer.aiter_bytes():
            for event in parser.feed(chunk):
                frame = json.loads(event.data)
                assert event.event == frame["type"]
                validate_own(frame)
                if event.id is not None and frame["type"] != "antiphon:feed.progress":
                    self.ids.append(event.id)
                self.seen.take(frame)
        self.over.set()


@contextlib.asynccontextmanager
async def following(server: RunningServer, key: str | None = None, **params: Any) -> AsyncIterator[Body]:
    headers = {"last-event-id": params.pop("after")} if "after" in params else {}
    body = Body()
    async with http(server, key, **headers) as client:
        async with client.stream("GET", "/v1/runs/feed", params=params, timeout=None) as answer:
            assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
            reading = asyncio.create_task(body.read(answer))
            try:
                yield body
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


async def test_the_list_and_one_run_say_what_the_feed_says() -> None:
    async with running_server() as server:
        over = (await create(server, "x"))["id"]
        talking = await begin(server, model=slow(server))
        async with http(server) as client:
            listed = LiveRuns.model_validate((await client.get("/v1/runs")).json())
            assert {run.response_id: run.state for run in listed.data} == {over: "completed", talking: "running"}
            query: dict[str, Any] = {"state": ["queued", "running"], "model": slow(server)}
            live = (await client.get("/v1/runs", params=query)).json()["data"]
            assert [run["response_id"] for run in live] == [talking]
            one = RunWithTimeline.model_validate((await client.get(f"/v1/runs/{over}")).json())
            assert (one.run.state, [entry.event for entry in one.timeline]) == ("completed", LIFE)
            assert error_of(await client.get(f"/v1/runs/{UNKNOWN_ID}"))["code"] == "response_not_found"
            for query in ({"state": "sleeping"}, {"state": ["queued"] * 3 + ["x"]}):
                assert error_of(await client.get("/v1/runs", params=query))["param"] == "state"


async def test_a_run_that_left_the_feed_is_read_from_the_store() -> None:
    async with running_server() as server:
        over = (await create(server, "x"))["id"]
        server.app.lifecycle._rings.clear()
        server.app.registry._states.clear()
        one = (await get(server, f"/v1/runs/{over}")).json()
        assert (one["run"]["state"], one["timeline"]) == ("completed", [])


async def test_the_feed_over_sse_goes_on_after_the_last_event() -> None:
    async with running_server() as server:
        async with following(server) as body:
            first = (await create(server, "x"))["id"]
            await until(lambda: body.seen.states == {first: "completed"})
            assert body.ids[0] == f"{body.seen.epoch}.0" and len(body.ids) == 6
        await until(lambda: server.app.engine.feeds.subscriptions == 0)
        second = (await create(server, "x"))["id"]
        async with following(server, after=body.ids[3]) as body:
            await until(lambda: len(body.seen.deltas) == 7)
            assert body.seen.states == {first: "completed", second: "completed"}
        async with following(server, after="f" * 16 + ".3", state="completed") as body:
            await until(lambda: body.seen.bookmarks == 1)
            assert (body.seen.resets, len(body.seen.rows)) == (["epoch"], 2)
        assert error_of(await _refused(server, {"last-event-id": "x.y"}))["param"] == "Last-Event-ID"
        assert error_of(await _refused(server, {}, mode="some"))["param"] == "mode"


async def _refused(server: RunningServer, headers: dict[str, str], **params: str) -> httpx2.Response:
    async with http(server, **headers) as client:
        return await client.get("/v1/runs/feed", params=params)


async def test_a_body_that_is_read_slowly_gets_the_newest_of_each_run() -> None:
    async with running_server() as server:
        talking = await begin(server, model=slow(server))
        reader, writer = await asyncio.open_connection(
            *server.url.removeprefix("http://").split(":"), limit=64 * 1024
        )
        writer.write(b"GET /v1/runs/feed HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        await until(lambda: server.app.engine.feeds.subscriptions == 1)
        (view,) = server.app.engine.feeds._views.values()
        (audience,) = view._audiences.values()
        while audience.live:
            await flood(server, talking, 500)
        await flood(server, talking, 3000)
        over = await begin(server, "x")
        seen, parser = Dashboard(), SseParser()
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n\r\n")
            while seen.states.get(over) != "completed":
                size = int(await reader.readline(), 16)
                for event in parser.feed(await reader.readexactly(size)):
                    seen.take(json.loads(event.data))
                await reader.readline()
        writer.close()
        assert max(delta.get("coalesced", 1) for delta in seen.deltas) > 1000


async def test_a_name_that_the_query_does_not_have_is_refused_with_those_it_has() -> None:
    async with running_server() as server:
        for path, params in (
            ("/v1/runs", {"sate": "running"}),
            ("/v1/runs", {"mode": "latest"}),
            ("/v1/runs/feed", {"agent": "a", "sate": "running"}),
        ):
            answer = await get(server, path, **params)
            wrong = next(name for name in params if name != "agent")
            assert answer.status_code == 400 and error_of(answer)["param"] == wrong
            assert "conversation_id" in error_of(answer)["message"] and "tenant" in error_of(answer)["message"]


async def test_an_admin_sees_which_tenants_there_are() -> None:
    async with tenants() as server:
        await ended(server, await begin(server, "x", key="anna"), "anna")
        talking = await begin(server, model=slow(server), key="other")
        async with http(server, "admin") as client:
            await client.post("/v1/admin/tenants/acme/pause")
            known = TenantList.model_validate((await client.get("/v1/admin/tenants")).json())
            assert {tenant.id: (tenant.paused, tenant.live_runs) for tenant in known.data} == {
                "acme": (True, 0),
                "default": (False, 0),
                "other": (False, 1),
            }
            listed = (await client.get("/v1/runs", params={"tenant": "other"})).json()["data"]
            assert [run["response_id"] for run in listed] == [talking]
            assert (await client.get(f"/v1/runs/{talking}")).json()["timeline"][0]["event"] == "run.created"


async def test_a_private_run_is_as_unknown_to_others_of_its_tenant() -> None:
    async with tenants() as server:
        private = await begin(server, "x", key="anna", antiphon={"visibility": "private"})
        await ended(server, private, "anna")
        async with following(server, "viewer") as body, http(server, "viewer") as client:
            assert (await client.get("/v1/runs")).json()["data"] == []
            theirs, nobodys = [await client.get(f"/v1/runs/{run_id}") for run_id in (private, UNKNOWN_ID)]
            assert theirs.status_code == nobodys.status_code == 404
            assert theirs.text.replace(private, UNKNOWN_ID) == nobodys.text
            await until(lambda: body.seen.bookmarks == 1)
            assert body.seen.rows == {}
        assert len((await get(server, "/v1/runs", "operator")).json()["data"]) == 1
