"""A feed shows what its subscriber may see now, and ends with what let it in."""

from __future__ import annotations

import asyncio

from tests.feed.test_http import following
from tests.feed.watching import watching
from tests.http.calling import begin, ended, until
from tests.identity.servers import KEY, guarded, revoke_key, store_key
from tests.identity.signing import signed


async def test_newer_credentials_of_a_lesser_role_take_private_runs_away() -> None:
    async with guarded() as server:
        private = await begin(server, "x", key=KEY, antiphon={"visibility": "private"})
        shared = await begin(server, "x", key=KEY)
        await ended(server, shared, KEY)
        async with watching(server, signed(role="operator")) as watch:
            await watch.subscribe(filter={"state": "completed"})
            await watch.until(lambda seen: seen.rows.keys() == {private, shared})
            again = await watch.client.command("antiphon:auth", token=signed(role="operator"))
            assert again["type"] == "antiphon:ok" and watch.look().resets == []
            await watch.client.command("antiphon:auth", token=signed(role="viewer"))
            seen = await watch.until(lambda seen: seen.resets and seen.bookmarks == 2)
            assert (seen.resets, list(seen.rows)) == (["access"], [shared])
            other = await begin(server, "x", key=KEY)
            await watch.until(lambda seen: other in seen.rows)


async def test_who_is_no_administrator_any_more_hears_no_more_of_another_tenant() -> None:
    async with guarded() as server, watching(server, signed(role="admin", tenant="other")) as watch:
        await watch.subscribe(tenant="acme")
        await watch.client.command("antiphon:auth", token=signed(role="operator", tenant="other"))
        await watch.until(lambda seen: seen.resets == ["access"])
        assert server.app.engine.feeds.subscriptions == 0
        await ended(server, await begin(server, "x", key=KEY), KEY)
        await watch.client.command("antiphon:ping")
        assert (watch.look().rows, watch.seen.deltas) == ({}, [])


async def test_a_revoked_key_ends_its_feeds() -> None:
    async with guarded(identity={"reread_s": 0.1}) as server:
        key_id = await store_key(server, "ak_dashboard")
        async with watching(server, "ak_dashboard") as watch, following(server, "ak_dashboard") as body:
            await watch.subscribe()
            await until(lambda: body.seen.bookmarks == 1)
            await revoke_key(server, key_id)
            assert await watch.client.wait_closed(30) == (4500, "invalid_api_key")
            await asyncio.wait_for(body.over.wait(), 30)
            await until(lambda: server.app.engine.feeds.subscriptions == 0)


async def test_a_body_that_never_ends_by_itself_does_not_hold_up_the_end_of_the_server() -> None:
    async with guarded() as server, following(server, KEY) as body:
        await until(lambda: body.seen.bookmarks == 1)
        await server.server.stop()
        await asyncio.wait_for(body.over.wait(), 30)
