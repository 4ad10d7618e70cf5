"""GET /v1/responses/{id}?stream=true: cursors, epochs and event ids (PROTOCOL 6.4, 11.3)."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.http.calling import begin, create, error_of, follow, get, http, script, slow, until
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse, read_sse
from tests.support.server import RunningServer, running_server

PACED = "[[turns]]\n[[turns.steps]]\ntext='w{n} é漢🚀 '\nrate=200\nrepeat=30"


async def test_every_cursor_gets_exactly_what_follows_it_byte_for_byte() -> None:
    async with running_server() as server:
        response = await create(server, "one two three four")
        whole = await follow(server, response["id"])
        epoch = str(whole.events[0].id).partition(".")[0]
        for number in range(-1, len(whole.events)):
            cursors = [{"starting_after": number}, {"starting_after": number, "epoch": epoch}]
            for cursor in cursors if number >= 0 else [{}]:
                part = await follow(server, response["id"], **cursor)
                assert part.events == whole.events[number + 1 :] and part.done


async def test_readers_that_attach_at_random_points_all_equal_the_reference() -> None:
    async with running_server() as server:
        model = script(server, "paced", PACED)
        response_id = await begin(server, model=model)
        pick = random.Random(7)

        async def reader() -> list[str]:
            async with open_sse("GET", f"{server.url}/v1/responses/{response_id}?stream=true") as stream:
                stop_after, seen = pick.randrange(1, 40), []
                async for event in stream:
                    seen.append(event)
                    if len(seen) == stop_after:
                        break
            rest = await read_sse(
                "GET",
                f"{server.url}/v1/responses/{response_id}?stream=true",
                headers={"Last-Event-ID": str(seen[-1].id)},
            )
            assert rest.done
            return [event.data for event in [*seen, *rest.events]]

        readers = await asyncio.gather(*(reader() for _ in range(12)))
        reference = await follow(server, response_id)
    check_run(reference.payloads)
    assert all(data == [event.data for event in reference.events] for data in readers)


async def test_starting_after_goes_before_last_event_id() -> None:
    async with running_server() as server:
        response = await create(server, "a b c")
        url = f"{server.url}/v1/responses/{response['id']}?stream=true"
        whole = await read_sse("GET", url)
        last = {"Last-Event-ID": str(whole.events[-2].id)}
        assert (await read_sse("GET", url, headers=last)).events == whole.events[-1:]
        assert (await read_sse("GET", f"{url}&starting_after=1", headers=last)).events == whole.events[2:]


async def test_a_stream_that_is_neither_true_nor_false_is_refused() -> None:
    async with running_server() as server:
        path = f"/v1/responses/{(await create(server))['id']}"
        for given in ("325", "yes", "null"):
            answer = await get(server, path, stream=given)
            assert (answer.status_code, error_of(answer)["param"]) == (400, "stream"), given
        for given in ("false", "0", "FALSE"):
            assert (await get(server, path, stream=given)).json()["object"] == "response"


async def test_a_cursor_from_the_future_is_told_where_the_log_ends() -> None:
    async with running_server() as server:
        response = await create(server)
        head = len((await follow(server, response["id"])).events) - 1
        answer = await get(server, f"/v1/responses/{response['id']}", stream="true", starting_after=head + 1)
        error = error_of(answer)
    assert (answer.status_code, error["code"], error["head"]) == (400, "cursor_in_future", head)
    assert len(error["epoch"]) == 16


async def test_a_cursor_of_an_unknown_epoch_is_expired_and_brings_the_response() -> None:
    async with running_server() as server:
        response = await create(server)
        whole = await follow(server, response["id"])
        answer = await get(
            server, f"/v1/responses/{response['id']}", stream="true", starting_after=1, epoch="0" * 16
        )
        error = error_of(answer)
    assert (answer.status_code, error["code"]) == (410, "cursor_expired")
    assert error["head"] == len(whole.events) - 1
    assert error["epoch"] == str(whole.events[0].id).partition(".")[0]
    assert answer.json()["response"] == response


async def test_a_cursor_that_cannot_be_read_is_refused_by_name() -> None:
    async with running_server() as server, http(server) as client:
        path = f"/v1/responses/{(await create(server))['id']}"
        for given in ("-1", "x", "1.5", "", "9" * 30, "²", "1e3"):
            answer = await client.get(path, params={"stream": "true", "starting_after": given})
            assert (answer.status_code, error_of(answer)["param"]) == (400, "starting_after"), given
        for given in ("x", "abc.", "abc.-1", "abc." + "9" * 30):
            answer = await client.get(f"{path}?stream=true", headers={"last-event-id": given})
            assert (answer.status_code, error_of(answer)["param"]) == (400, "Last-Event-ID"), given


@pytest.mark.parametrize("mode", ["relaxed", "strict"])
async def test_a_long_run_streams_whole_after_its_start_has_left_memory(mode: str) -> None:
    async with running_server(journal={"mode": mode, "tail_bytes": 20_000}) as server:
        model = script(server, "long", "[[turns]]\n[[turns.steps]]\ntext='word{n} '\nrepeat=3000\nrate=20000")
        response_id = await begin(server, model=model)
        live = await follow(server, response_id)
        again = await follow(server, response_id)
    assert check_run(live.payloads).text.endswith("word2999 ")
    assert live.events == again.events


async def test_an_unstored_run_streams_while_it_lives_and_within_its_grace_then_is_unknown() -> None:
    async with running_server(store={"grace_s": 1.5}) as server:
        response_id, live = await _unstored(server)
        assert (await get(server, f"/v1/responses/{response_id}")).status_code == 404
        assert (await http_cancel(server, response_id))["status"] == "cancelled"
        again = await follow(server, response_id)
        assert again.payloads[-1]["response"]["status"] == "cancelled"
        assert (await get(server, f"/v1/responses/{response_id}")).status_code == 404
        await live

        async def gone() -> bool:
            return (await get(server, f"/v1/responses/{response_id}", stream="true")).status_code == 404

        await until(gone)
        async with http(server) as client:
            assert (await client.post(f"/v1/responses/{response_id}/cancel")).status_code == 404


async def http_cancel(server: RunningServer, response_id: str) -> dict[str, object]:
    async with http(server) as client:
        answer = await client.post(f"/v1/responses/{response_id}/cancel")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def _unstored(server: RunningServer) -> tuple[str, asyncio.Task[None]]:
    """Start an unstored run; its id, and the task that reads it to the end."""
    known: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    fields = {"model": slow(server), "input": "x", "store": False, "stream": True}

    async def read() -> None:
        async with open_sse("POST", f"{server.url}/v1/responses", json=fields) as stream:
            async for event in stream:
                if not known.done():
                    known.set_result(event.json()["response"]["id"])

    task = asyncio.create_task(read())
    async with asyncio.timeout(40):
        return await known, task


async def test_an_unstored_log_that_outgrew_its_memory_is_expired_at_the_start_but_not_at_the_end() -> None:
    async with running_server(journal={"memory_run_bytes": 200_000}) as server:
        model = script(server, "long", "[[turns]]\n[[turns.steps]]\ntext='word{n} '\nrepeat=2000\n")
        body = {"model": model, "input": "x", "store": False}
        async with http(server) as client:
            answer = await client.post("/v1/responses", json=body)
            response_id = answer.json()["id"]
            early = await client.get(f"/v1/responses/{response_id}?stream=true")
            error = error_of(early)
            late = await follow(server, response_id, starting_after=error["head"] - 3)
    assert (early.status_code, error["code"]) == (410, "cursor_expired")
    assert early.json()["response"] == answer.json()
    assert [event["sequence_number"] for event in late.payloads] == [
        error["head"] - 2,
        error["head"] - 1,
        error["head"],
    ]


async def test_a_reader_that_leaves_costs_the_run_and_other_readers_nothing() -> None:
    async with running_server() as server:
        response_id = await begin(server, model=script(server, "paced", PACED))
        other = asyncio.create_task(follow(server, response_id))
        for _ in range(5):
            async with open_sse("GET", f"{server.url}/v1/responses/{response_id}?stream=true") as stream:
                await anext(aiter(stream))
        assert check_run((await other).payloads).terminal is not None
        run_log = server.app.registry.get(response_id)
        assert run_log.state == "completed"
