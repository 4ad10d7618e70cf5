"""Keys of the store: read once, revoked in time, and never slower because there are many."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon.core.token_bucket import Rate
from antiphon.errors import AntiphonError, RequestError, StorageError, Unauthorized
from antiphon.governance.identity.failed_logins import FailedLogins
from antiphon.governance.identity.stored_keys import StoredKeys
from antiphon.settings.identity import IdentitySettings
from antiphon.store.api_keys import ApiKey
from tests.identity.signing import TurnedClock


class Rows:
    """A store in memory that counts what it is asked."""

    def __init__(self, *keys: ApiKey) -> None:
        self.keys = {key.sha256: key for key in keys}
        self.finds = 0
        self.away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def find(self, sha256: str) -> ApiKey | None:
        self.finds += 1
        await self.may_answer.wait()
        return self.keys.get(sha256)

    async def revoked_since(self, at: float) -> frozenset[str]:
        if self.away:
            raise StorageError("away")
        return frozenset(k.id for k in self.keys.values() if k.revoked_at is not None and k.revoked_at >= at)

    async def any_active(self, now: float) -> bool:
        return any(key.is_active(now) for key in self.keys.values())

    def revoke(self, sha256: str, at: float) -> None:
        self.keys[sha256] = replace(self.keys[sha256], revoked_at=at)


def key(name: str = "ci", **fields: object) -> ApiKey:
    given = {"owner": None, "tenant": "acme", "role": "driver", "created_at": 1.0, **fields}
    return ApiKey(id=f"key_{name}", sha256=name, name=name, **given)  # type: ignore[arg-type]


def stored(rows: Rows, clock: TurnedClock, failed: FailedLogins | None = None) -> StoredKeys:
    return StoredKeys(rows, clock, {"acme": "pro"}, IdentitySettings(), failed or FailedLogins(None, clock))


async def test_a_key_is_its_tenant_role_and_user_or_itself() -> None:
    keys = stored(Rows(key(), key("annas", owner="anna", role="admin", expires_at=9.0)), TurnedClock())
    found, annas = await keys.find("ci"), await keys.find("annas")
    assert found is not None and annas is not None
    assert (found.id, found.tenant, found.role, found.tier) == ("key:ci", "acme", "driver", "pro")
    assert (found.credential, found.expires_at) == ("key_ci", None)
    assert (annas.id, annas.role, annas.expires_at) == ("user:anna", "admin", 9.0)


async def test_the_store_is_asked_once_for_a_key_however_many_there_are() -> None:
    rows = Rows(*(key(f"k{number}") for number in range(1_000)))
    keys = stored(rows, TurnedClock())
    for _ in range(3):
        for number in range(1_000):
            assert await keys.find(f"k{number}") is not None
    assert rows.finds == 1_000


async def test_an_unknown_key_is_asked_for_again_only_after_a_while() -> None:
    rows, clock = Rows(), TurnedClock()
    keys = stored(rows, clock)
    for _ in range(10):
        assert await keys.find("new") is None
    assert rows.finds == 1
    rows.keys["new"] = key("new")
    clock.at += 2
    assert await keys.find("new") is not None


async def test_a_revoked_key_counts_no_more_once_that_was_read_and_its_watchers_hear_it_once() -> None:
    rows, clock = Rows(key(), key("other")), TurnedClock()
    keys = stored(rows, clock)
    heard: list[frozenset[str]] = []
    keys.on_revoked = heard.append
    await keys.find("ci")
    keys.check("key_ci")
    rows.revoke("ci", clock.at)
    await keys.read()
    await keys.read()
    with pytest.raises(Unauthorized) as refused:
        keys.check("key_ci")
    assert refused.value.code == "invalid_api_key"
    keys.check("key_other")
    assert heard == [frozenset({"key_ci"})]


async def test_a_key_that_was_revoked_long_ago_is_refused_when_it_is_first_shown() -> None:
    rows, clock = Rows(key(revoked_at=1.0)), TurnedClock()
    keys = stored(rows, clock)
    await keys.read()
    found = await keys.find("ci")
    assert found is not None
    with pytest.raises(Unauthorized):
        keys.check(found.credential)


async def test_without_the_store_known_keys_count_for_a_while_and_then_nobody_can_know() -> None:
    rows, clock = Rows(key()), TurnedClock()
    keys = stored(rows, clock)
    await keys.read()
    rows.away = True
    clock.at += 59
    keys.check("key_ci")
    clock.at += 2
    with pytest.raises(AntiphonError) as refused:
        keys.check("key_ci")
    assert (refused.value.code, refused.value.retryable) == ("identity_unavailable", True)
    rows.away = False
    await keys.read()
    keys.check("key_ci")


async def test_what_was_revoked_while_the_store_was_away_for_long_is_found_when_it_is_back() -> None:
    rows, clock = Rows(key()), TurnedClock()
    keys = stored(rows, clock)
    await keys.read()
    await keys.find("ci")
    rows.away = True
    clock.at += 60
    rows.revoke("ci", clock.at)
    clock.at += 3 * 3600
    rows.away = False
    await keys.read()
    with pytest.raises(Unauthorized):
        keys.check("key_ci")


async def test_a_flood_of_made_up_keys_from_one_address_keeps_no_other_from_being_looked_up() -> None:
    rows, clock = Rows(key()), TurnedClock()
    keys = stored(rows, clock)
    rows.may_answer.clear()
    flood = [asyncio.create_task(keys.find(f"made up {number}", "192.0.2.1")) for number in range(500)]
    await asyncio.sleep(0)
    good = asyncio.create_task(keys.find("ci", "192.0.2.2"))
    await asyncio.sleep(0)
    assert rows.finds == 3, "two of the flood, and at once the one of another address"
    rows.may_answer.set()
    assert await good is not None and not all(task.done() for task in flood)
    assert await asyncio.gather(*flood) == [None] * 500


async def test_an_address_that_has_failed_too_often_is_looked_up_no_more_until_it_has_waited() -> None:
    rows, clock = Rows(key(), key("known")), TurnedClock()
    failed = FailedLogins(Rate(per_s=1, burst=3), clock)
    keys = stored(rows, clock, failed)
    assert await keys.find("known", "192.0.2.1") is not None
    for _ in range(3):
        failed.count("192.0.2.1")
    with pytest.raises(RequestError) as refused:
        await keys.find("made up", "192.0.2.1")
    assert (refused.value.code, refused.value.headers["retry-after"]) == ("rate_limited", "1")
    assert rows.finds == 1 and await keys.find("known", "192.0.2.1") is not None
    assert await keys.find("ci", "192.0.2.2") is not None
    clock.at += 1
    assert await keys.find("ci", "192.0.2.1") is not None
