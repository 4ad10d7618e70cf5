"""`antiphon keys`: make, list and revoke keys of the store, revoke tokens, whether or not a server is running."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from antiphon.clock import RandomIds, SystemClock
from antiphon.core.principal import Principal, Role
from antiphon.errors import StartupError, StorageError
from antiphon.governance.audit import Audit
from antiphon.governance.identity.static_keys import digest
from antiphon.governance.identity.stored_keys import KEY_PREFIX
from antiphon.governance.identity.tokens import user_id
from antiphon.settings import Settings
from antiphon.store import api_keys, revoked_tokens
from antiphon.store.api_keys import ApiKey, ApiKeys
from antiphon.store.opening import Store, open_store
from antiphon.store.revoked_tokens import one_token, tokens_of

_KEY_BYTES = 32
_DAY_S = 86_400.0
_ROOM_FOR_ALL = 100
"""Cells of a terminal in which the list has all of its columns."""
_AT_THE_CONSOLE = Principal("system:console", "default", "admin")
"""Who does it, in the audit log: somebody with access to the database."""


async def create(
    settings: Settings,
    console: Console,
    *,
    name: str,
    tenant: str,
    role: Role,
    user: str | None,
    days: float | None,
) -> None:
    """Make a key and print it, once. days: until it runs out; None: never. Raises StartupError."""
    clock = SystemClock()
    _check(settings, tenant)
    secret = KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    now = clock.now()
    until = now + days * _DAY_S if days is not None else None
    key = ApiKey(RandomIds().mint("key"), digest(secret), name, user, tenant, role, now, until)
    async with _store(settings) as store:
        audit = Audit(store.writer, clock, RandomIds())
        detail = {"name": name, "tenant": tenant, "role": role}
        await audit.record_with(_AT_THE_CONSOLE, "key.create", f"key:{key.id}", detail, api_keys.create(key))
    console.print(secret, soft_wrap=True, markup=False)
    console.print(f"id {key.id}, tenant {tenant}, role {role}, {_until(until)}", soft_wrap=True, markup=False)
    console.print("It is kept nowhere: this is the only time it is shown. Running servers take it at once.")


async def show(settings: Settings, console: Console, *, as_json: bool) -> None:
    """Print all keys but what they are. Raises StartupError."""
    async with _store(settings) as store:
        found = await ApiKeys(store.reader).listed()
    now = SystemClock().now()
    if as_json:
        rows = [_row(key, now) for key in found]
        console.print(orjson.dumps({"object": "list", "data": rows}).decode(), soft_wrap=True, markup=False)
        return
    # What has no room goes on in the next line: nothing is cut. The least of it is left to `--json`.
    heads = ("name", "user", "tenant", "role", "state", *(("made",) if console.width >= _ROOM_FOR_ALL else ()))
    table = Table(
        Column("id", no_wrap=True, min_width=36),
        *(Column(head, overflow="fold", min_width=len(head) + 2) for head in heads),
        box=None,
        pad_edge=False,
    )
    for key in found:
        cells = (key.id, key.name, key.owner or "", key.tenant, key.role, _state(key, now), _day(key.created_at))
        table.add_row(*(escape(cell) for cell in cells[: len(heads) + 1]))
    console.print(table)


async def revoke(settings: Settings, console: Console, key_id: str) -> None:
    """Take a key back. Raises StartupError, also for one that is not there or was revoked before."""
    clock = SystemClock()
    async with _store(settings) as store:
        found = {key.id: key for key in await ApiKeys(store.reader).listed()}
        if key_id not in found:
            raise StartupError(f"there is no key {key_id}; `antiphon keys list` shows those there are")
        if found[key_id].revoked_at is not None:
            raise StartupError(f"the key {key_id} was revoked before")
        work = api_keys.revoke(key_id, clock.now())
        audit = Audit(store.writer, clock, RandomIds())
        await audit.record_with(_AT_THE_CONSOLE, "key.revoke", f"key:{key_id}", None, work)
    console.print(f"{key_id} is revoked. Running servers refuse it, and close its sockets, within 5 seconds.")


async def revoke_token(settings: Settings, console: Console, token_id: str) -> None:
    """Take a signed token back. token_id: its `jti`. Raises StartupError."""
    _check_tokens(settings)
    await _revoke_tokens(settings, one_token(token_id), f"token:{token_id}")
    console.print("The token is revoked. Running servers refuse it, and close its sockets, within 5 seconds.")


async def revoke_tokens_of(settings: Settings, console: Console, user: str, tenant: str | None) -> None:
    """Take back all signed tokens that a user has now. tenant: None if they name none. Raises StartupError."""
    _check_tokens(settings)
    name = user_id(user)
    await _revoke_tokens(settings, tokens_of(tenant or name, name), f"tokens:{tenant or name}/{name}")
    console.print(
        f"All tokens of {name} issued until now are revoked. Running servers refuse them, and close their "
        "sockets, within 5 seconds. Keys of the user count as before.",
        soft_wrap=True,
        markup=False,
    )


async def _revoke_tokens(settings: Settings, row_id: str, target: str) -> None:
    clock = SystemClock()
    async with _store(settings) as store:
        audit = Audit(store.writer, clock, RandomIds())
        work = revoked_tokens.revoke(row_id, clock.now())
        await audit.record_with(_AT_THE_CONSOLE, "token.revoke", target, None, work)


@contextlib.asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    """The store, its tables made if no server owns it now. Raises StartupError."""
    store = open_store(settings)
    try:
        try:
            await store.prepare()
        except StartupError:
            if settings.store_engine != "sqlite" or not settings.database_path.is_file():
                raise
            # A running server owns the file and has made its tables; one more writer does no harm.
        store.writer.start()
        yield store
    except StorageError as error:
        raise StartupError(f"the database {store.place} cannot be used: {error.__cause__ or error}") from error
    finally:
        await store.aclose()


def _check(settings: Settings, tenant: str) -> None:
    """Raises StartupError for a tenant that no key of the configuration could have either."""
    if tenant not in {"default", *(one.id for one in settings.tenant)}:
        raise StartupError(f"the tenant {tenant!r} is not configured; add a [[tenant]] with this id first")


def _check_tokens(settings: Settings) -> None:
    if settings.jwt is None:
        raise StartupError("signed tokens are not accepted here: there is no [jwt]")


def _row(key: ApiKey, now: float) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "user": key.owner,
        "tenant": key.tenant,
        "role": key.role,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "active": key.is_active(now),
    }


def _state(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if not key.is_active(now):
        return f"ran out {_day(key.expires_at or 0.0)}"
    return _until(key.expires_at)


def _until(expires_at: float | None) -> str:
    return "never runs out" if expires_at is None else f"until {_day(expires_at)}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
