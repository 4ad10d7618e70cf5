"""`antiphon doctor`: what the server would run with, and whether what it needs is there."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from antiphon.bus.redis.address import parse_address
from antiphon.bus.redis.connection import Connections
from antiphon.cli.doctor_callers import caller_check
from antiphon.cli.doctor_hooks import hook_checks
from antiphon.cli.doctor_monitoring import monitoring_checks
from antiphon.cli.doctor_tools import Check, tool_checks
from antiphon.clock import SystemClock
from antiphon.errors import AntiphonError, StartupError, UpstreamError
from antiphon.runs.compaction.sealing import Sealer
from antiphon.settings import Settings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.store.database import migrate
from antiphon.store.postgres.connection import check_server, place_of
from antiphon.store.postgres.migrating import schema_version
from antiphon.store.schema import newest
from antiphon.upstream.build import build_upstreams, http_upstream


async def examine(settings: Settings, config: Path | None, console: Console) -> bool:
    """Print settings and checks; True if all checks passed."""
    console.print(f"[bold]Configuration[/bold] ({escape(str(config or 'no file, defaults and environment'))})")
    # SecretStr renders as asterisks, and URLs lose their passwords: no secret reaches the terminal.
    shown = settings.model_dump(mode="json")
    shown |= {name: _without_password(shown[name]) for name in ("store_url", "bus_url")}
    console.print_json(orjson.dumps(shown).decode())
    table = Table("check", "result", "detail", title="Checks", title_justify="left")
    good = True
    for name, check in _checks(settings, config):
        try:
            table.add_row(escape(name), "[green]ok[/green]", escape(await check()))
        except (AntiphonError, OSError) as error:
            good = False
            table.add_row(escape(name), "[red]failed[/red]", escape(str(error)))
    console.print(table)
    return good


def _checks(settings: Settings, config: Path | None) -> list[tuple[str, Check]]:
    async def data_folder() -> str:
        settings.data_path.mkdir(parents=True, exist_ok=True)
        probe = settings.data_path / ".doctor"
        probe.write_bytes(b"")
        probe.unlink()
        return str(settings.data_path)

    async def database() -> str:
        settings.check_engines()
        if settings.store_engine == "postgresql":
            return await asyncio.to_thread(_examine_postgres, settings)
        await asyncio.to_thread(migrate, settings.database_path)
        return str(settings.database_path)

    async def port() -> str:
        with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
        return f"{settings.host}:{settings.port} is free"

    async def seal_key() -> str:
        path = settings.data_path / "seal.key"
        if settings.seal_key is None and settings.store_engine == "postgresql":
            return "all nodes share the one in the database"
        if settings.seal_key is None and not path.exists():
            return f"{path} will be made"
        given = settings.seal_key.get_secret_value() if settings.seal_key is not None else None
        await asyncio.to_thread(Sealer(given, path).load)
        return str(path) if given is None else "seal_key is configured"

    async def bus() -> str:
        connections = Connections(parse_address(settings.bus_url), settings.bus, "doctor")
        try:
            return f"{connections.address}: {await connections.open()}"
        finally:
            await connections.close()

    async def upstreams() -> str:
        router = build_upstreams(settings, SystemClock(), config)
        try:
            names = [model["id"] for model in await router.models()]
        finally:
            await router.aclose()
        more = ", …" if len(names) > 8 else ""
        return f"{len(names)} models: {', '.join(names[:8])}{more}"

    return [
        ("data folder", data_folder),
        ("database", database),
        *([("bus", bus)] if settings.store_engine == "postgresql" else []),
        ("address", port),
        ("seal key", seal_key),
        ("callers", caller_check(settings, config)),
        ("models", upstreams),
        *((f"upstream {one.name}", _reaches(one, settings)) for one in settings.upstreams),
        *tool_checks(settings, config),
        *hook_checks(settings),
        *monitoring_checks(settings),
    ]


def _examine_postgres(settings: Settings) -> str:
    """Looks only: the tables are made by `antiphon migrate` or by a start. Raises StartupError."""
    version = check_server(settings.store_url, settings.store.timeout_s)
    place, there, needed = place_of(settings.store_url), schema_version(settings.store_url), newest()
    if there != needed:
        raise StartupError(
            f"{place} has {f'the schema {there}' if there else 'no tables'}, this server needs schema {needed}; "
            "run `antiphon migrate`"
        )
    return f"{place}: PostgreSQL {version}, schema {there}"


def _without_password(url: str) -> str:
    """A URL as it may be shown."""
    url = re.sub(r"://([^:@]*):.*@", r"://\1:***@", url)
    return re.sub(r"(password=)[^&]*", r"\1***", url)


def _reaches(one: UpstreamSettings, settings: Settings) -> Check:
    """Ask the upstream itself: the router only leaves out the models of one that does not answer."""

    async def check() -> str:
        upstream = http_upstream(one, settings)
        try:
            async with asyncio.timeout(settings.timeouts.upstream_connect_s + 5):
                return f"{one.url} lists {len(await upstream.models())} models"
        except UpstreamError as error:
            if error.http_status in (404, 405) and one.models is not None:
                return f"{one.url} answers"
            raise
        except TimeoutError:
            raise UpstreamError(f"{one.url} did not answer in time.") from None
        finally:
            await upstream.aclose()

    return check
