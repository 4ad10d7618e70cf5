"""GET /metrics: what each number says after something happened, who may read it, and that labels are bounded."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from antiphon.errors import StartupError
from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import MODEL, begin, create, ended, follow, get, http, key_of, slow, stub_server, until
from tests.session.held import calling, hold, next_call, output, taken, waits
from tests.session.play import words, write_script
from tests.support import stub_upstream as stub
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

KEYS = [key_of(role, name=role, tenant="acme", role=role) for role in ("viewer", "driver", "operator", "admin")]
FAILURE = {"error": {"message": "Not today.", "code": "a_code_of_their_own"}}


async def page(server: RunningServer, key: str | None = None) -> str:
    answer = await get(server, "/metrics", key)
    assert answer.status_code == 200, answer.text
    return answer.text


async def scraped(server: RunningServer) -> dict[tuple[str, ...], float]:
    """The samples of a scrape, by name without the prefix and values of labels in the order of their names."""
    samples = {}
    for family in text_string_to_metric_families(await page(server)):
        for sample in family.samples:
            labels = [sample.labels[name] for name in sorted(sample.labels)]
            samples[sample.name.removeprefix("antiphon_"), *labels] = sample.value
    return samples


async def test_runs_tools_readers_refusals_and_the_upstream_are_counted() -> None:
    handler = stub.in_turn(stub.text(3), stub.answering(400, FAILURE))
    async with stub_server(handler) as (_, server):
        await create(server, model=MODEL)
        failed = await begin(server, model=MODEL)
        await ended(server, failed)
        cancelled = await begin(server, model=slow(server))
        async with ws_client(server.ws_url) as client, ws_client(server.ws_url) as other:
            await client.hello(client={"name": "test", "instance_id": "one"})
            run = await hold(client, calling(server.data_dir, 1))
            await waits(server, run)
            await other.hello()
            await other.attach(run.id)
            claim = await client.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[0])
            waiting = await scraped(server)
            await taken(client, run.id, output(run.call_ids[0], fence=claim["fence"]))
            await client.collect_run()
            await other.send({"type": "no.such.frame"})
            await other.recv_until(lambda event: event["type"] == "error")
            await client.close(4999)
        async with http(server) as web:
            await web.post(f"/v1/responses/{cancelled}/cancel")
            await web.post("/v1/responses", json={"model": "antiphon/echo", "input": "x", "temperature": "hot"})
            await web.get("/v1/responses/resp_unknown")
            await web.get("/v1/models", headers={"host": "evil.example"})
        await follow(server, run.id, starting_after=1)
        await until(lambda: len(server.app.hub) == 0)
        seen = await scraped(server)
    assert waiting["runs", "waiting_for_tool"] == 1 and waiting["pending_calls",] == 1
    assert (waiting["sockets",], seen["sockets",], seen["outbox_bytes",]) == (2, 0, 0)
    assert [seen["runs", state] for state in ("queued", "running", "waiting_for_tool")] == [0, 0, 0]
    assert seen["runs_started_total",] == 4
    ends = {key[1:]: value for key, value in seen.items() if key[0] == "runs_ended_total"}
    assert ends == {("", "completed"): 2, ("other", "failed"): 1, ("cancelled", "cancelled"): 1}
    assert seen["run_duration_seconds_count",] == 4 and seen["cancel_seconds_count",] == 1
    assert seen["first_output_seconds_count",] == 3
    assert seen["events_total",] > 4 * 3 and seen["tokens_total", "output"] > 0
    assert seen["tool_calls_total", "client", "ok"] == seen["client_tool_wait_seconds_count",] == 1
    assert seen["claims_total", "claimed"] == 1
    assert seen["attaches_total", "replay", "websocket"] == 1
    assert seen["attaches_total", "replay", "sse"] >= 1 and seen["replayed_events_total",] > 0
    assert seen["refusals_total", "invalid_request", "http"] == 1
    assert seen["refusals_total", "response_not_found", "http"] == 1
    assert seen["refusals_total", "host_not_allowed", "door"] == 1
    assert seen["refusals_total", "unsupported_event_type", "command"] == 1
    assert seen["socket_closes_total", "0"] == 1  # a code that only the client knows
    assert seen["upstream_calls_total", "stub"] == 2 and seen["upstream_answer_seconds_count", "stub"] == 1
    assert seen["upstream_breaker", "closed", "stub"] == 1
    assert seen["store_commit_seconds_count",] > 0 and seen["lease_held",] == 1
    assert "a_code_of_their_own" not in str(seen) and run.id not in str(seen)


async def test_usual_codes_of_upstreams_are_told_apart() -> None:
    """An operator alerts on them."""
    limited = {"error": {"code": "rate_limit_exceeded", "type": "requests", "message": "Slow down."}}
    poor = {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "Pay."}}
    handler = stub.in_turn(stub.answering(429, limited), stub.answering(429, poor))
    async with stub_server(handler, retry={"max_attempts": 1}) as (_, server):
        for _ in range(2):
            await ended(server, await begin(server, model=MODEL))
        seen = await scraped(server)
    codes = {key[1]: value for key, value in seen.items() if key[0] == "runs_ended_total"}
    assert codes == {"rate_limit_exceeded": 1, "insufficient_quota": 1}


async def test_buckets_are_cumulative_and_agree_with_the_count_in_both_formats() -> None:
    async with running_server() as server:
        await create(server)
        accept = "application/openmetrics-text;version=1.0.0"
        async with http(server, accept=accept) as client:
            answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        for families in (open_metrics(answer.text), text_string_to_metric_families(await page(server))):
            (family,) = [one for one in families if one.name == "antiphon_run_duration_seconds"]
            buckets = [s for s in family.samples if s.name.endswith("_bucket")]
            counts = [sample.value for sample in buckets]
            assert counts == sorted(counts) and counts[-1] == 1
            assert float(buckets[-1].labels["le"]) == math.inf


@contextlib.asynccontextmanager
async def guarded(**metrics: Any) -> AsyncIterator[RunningServer]:
    async with running_server(auth="required", key=KEYS, tenant=[{"id": "acme"}], metrics=metrics) as server:
        yield server


async def test_admins_and_the_scraper_read_it_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER", "of-the-scraper")
    async with guarded(token_env="SCRAPER") as server:
        allowed = {"admin": 200, "of-the-scraper": 200, "operator": 403, "driver": 403, "wrong": 401, None: 401}
        given = {key: (await get(server, "/metrics", key)).status_code for key in allowed}
        assert given == allowed
        assert (await get(server, "/v1/models", "of-the-scraper")).status_code == 401


async def test_a_socket_that_was_not_let_in_is_counted_with_the_code_it_was_closed_with() -> None:
    async with guarded() as server:
        async with ws_client(server.ws_url, api_key=None) as client:
            await client.send({"type": "antiphon:auth", "token": "wrong"})
            code, _ = await client.wait_closed()
        page = (await get(server, "/metrics", "admin")).text
    assert f'antiphon_socket_closes_total{{code="{code}"}} 1.0' in page and "antiphon_sockets 0.0" in page


async def test_it_can_be_switched_off_and_a_token_that_is_not_set_stops_the_start() -> None:
    async with running_server(metrics={"enabled": False}) as server:
        assert (await get(server, "/metrics")).status_code == 404
    with pytest.raises(StartupError, match="NOT_SET"):
        async with guarded(token_env="NOT_SET"):
            pass


async def test_each_node_counts_its_own_and_says_how_it_follows_the_other(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.there.ws_url) as client:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [words(500, rate=200)]))
        await client.hello()
        lane = (await client.attach(run))["stream_id"]
        following = await scraped(nodes.there)
        await client.collect_attachment(lane)
        await until(lambda: nodes.here.app.registry.get(run).state == "completed")
        here, there = await scraped(nodes.here), await scraped(nodes.there)
    assert following["tailers",] == 1 and there["tailer_looks_total",] > 0
    assert (here["runs_started_total",], there["runs_started_total",]) == (1, 0)
    assert here["events_total",] > 500 and there["events_total",] == 0
    assert here["journal_flush_seconds_count",] > 0
    assert (here["lease_held",], here["bus_healthy",], here["lease_suspensions_total",]) == (1, 1, 0)


async def test_calls_of_a_second_round_say_nothing_about_the_first_output() -> None:
    async with running_server() as server, ws_client(server.ws_url) as client:
        await client.hello()
        run = await hold(client, calling(server.data_dir, 1, 1))
        await taken(client, run.id, output(run.call_ids[0]))
        again = await next_call(client)
        await taken(client, run.id, output(again))
        await client.collect_run()
        seen = await scraped(server)
    assert seen["first_output_seconds_count",] == 1 and seen["client_tool_wait_seconds_count",] == 2
