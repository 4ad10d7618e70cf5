"""How `antiphon doctor` looks at who would be let in."""

from __future__ import annotations

from pathlib import Path

from antiphon.cli.doctor_tools import Check
from antiphon.clock import SystemClock
from antiphon.errors import StartupError
from antiphon.governance.identity.build import Verifier
from antiphon.settings import Settings
from antiphon.store.api_keys import ApiKeys
from antiphon.store.opening import open_store


def caller_check(settings: Settings, config: Path | None) -> Check:
    """Runs after the one of the database, which makes its tables."""

    async def check() -> str:
        if not settings.auth_required:
            return "authentication is off: whoever reaches the address is admin"
        now, store = SystemClock().now(), open_store(settings)
        try:
            stored = [key for key in await ApiKeys(store.reader).listed() if key.is_active(now)]
        finally:
            await store.aclose()
        ways = [f"{len(settings.key)} keys of the configuration", f"{len(stored)} keys of the store"]
        if settings.jwt is not None:
            ways.append(f"{settings.jwt.algorithm} tokens, checked with {await _verified_with(settings, config)}")
        elif not settings.key and not stored:
            raise StartupError("nobody could be let in: make a key with `antiphon keys create`")
        return ", ".join(ways)

    return check


async def _verified_with(settings: Settings, config: Path | None) -> str:
    assert settings.jwt is not None
    verifier = Verifier(settings.jwt, SystemClock(), config)
    try:
        return await verifier.examine()
    finally:
        await verifier.aclose()
