"""Commands: serve, tail, chat, migrate, doctor, usage, keys, version.

What only one of them needs is imported by it: the server alone takes seconds of computing, and nobody who wants to
chat should wait for them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from rich.console import Console
from rich.markup import escape

from antiphon import __version__
from antiphon.cli.logs import configure_logs
from antiphon.core.principal import ROLES
from antiphon.errors import ClientError, StartupError
from antiphon.settings import Settings
from antiphon.settings.loading import load_settings

app = typer.Typer(
    help="Self-hosted real-time server for AI agent runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)
LOCAL = "http://127.0.0.1:8787"

Config = Annotated[Path | None, typer.Option("--config", envvar="ANTIPHON_CONFIG", help="antiphon.toml to use.")]
Url = Annotated[
    str, typer.Option("--url", envvar="ANTIPHON_URL", help="The server. A key is read from ANTIPHON_API_KEY.")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where data is kept. Default ~/.antiphon")]


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="Address to bind. Default 127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind; 0 picks a free one. Default 8787")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that share the port. Default 1")] = None,
    data_dir: DataDir = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[
        str | None, typer.Option(help="json, console or auto. Default auto: console on a terminal.")
    ] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Allow auth = off on an address others can reach.")
    ] = None,
) -> None:
    """Start the server."""
    flags = {
        "host": host,
        "port": port,
        "workers": workers,
        "data_dir": data_dir,
        "log_level": log_level,
        "log_format": log_format,
        "insecure": insecure or None,
    }
    settings, path = _load(config, **flags)
    configure_logs(settings.log_level, settings.log_format)
    try:
        if settings.workers == 1:
            uvloop.run(_serve(settings, path))
            return
        from antiphon.workers.supervisor import Supervisor

        raise typer.Exit(Supervisor(settings, path, flags).run(lambda url: _banner(settings, url)))
    except StartupError as error:
        _fail(error)


@app.command(hidden=True)
def worker(ready: int, config: Config = None) -> None:
    """One of several processes behind a port; `serve` starts them. ready: file descriptor of who waits for it."""
    settings, path = _load(config)
    configure_logs(settings.log_level, settings.log_format)

    def started(url: str) -> None:
        os.write(ready, b".")

    try:
        from antiphon.listening import bind_shared

        uvloop.run(_serve(settings, path, started, bind_shared(settings.host, settings.port)))
    except StartupError as error:
        _fail(error)


@app.command()
def tail(
    url: Url = LOCAL,
    tenant: Annotated[str | None, typer.Option(help="Another one than your own; for admins.")] = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in it, for example running. Repeatable.")
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only runs of it. Repeatable.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only runs of it. Repeatable.")] = None,
    principal: Annotated[list[str] | None, typer.Option(help="Only runs they created. Repeatable.")] = None,
    conversation: Annotated[list[str] | None, typer.Option(help="Only runs of it. Repeatable.")] = None,
    run: Annotated[str | None, typer.Option(help="The events of this run instead, to its end.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Each frame as a line of JSON.")] = False,
    follow: Annotated[bool, typer.Option("--follow/--once", help="Go on, or show what there is.")] = True,
    since: Annotated[str | None, typer.Option(help="Go on after this EPOCH.REV of the feed.")] = None,
) -> None:
    """Watch every run live: a table in a terminal, lines in a pipe."""

    from antiphon.cli.tail import TailOptions
    from antiphon.cli.tail import tail as watch

    chosen = {"state": state, "agent": agent, "model": model, "principal": principal}
    filters = {name: values for name, values in (chosen | {"conversation_id": conversation}).items() if values}
    options = TailOptions(url, filters, tenant, since, run, as_json, not follow)
    _as_client(lambda: watch(options))


@app.command()
def chat(
    url: Url = LOCAL,
    model: Annotated[str | None, typer.Option(envvar="ANTIPHON_MODEL", help="Default: the server's.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent that answers.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Go on with this conversation.")] = None,
    attach: Annotated[str | None, typer.Option(help="Go on with this response, also while it is made.")] = None,
    tool: Annotated[list[str] | None, typer.Option(help="A tool you answer by hand; may be given often.")] = None,
) -> None:
    """Talk with a model, through lost connections and restarts of the server. Ctrl-C stops an answer."""

    from antiphon.cli.chat import ChatOptions
    from antiphon.cli.chat import chat as talk

    if conversation is not None and attach is not None:
        raise typer.BadParameter("give either --conversation or --attach")
    options = ChatOptions(url, model, agent, conversation, attach, tuple(tool or ()))
    _as_client(lambda: talk(options))


@app.command()
def migrate(config: Config = None, data_dir: DataDir = None) -> None:
    """Bring the tables of the store up to date. A start does so too."""

    from antiphon.cli.migrate import migrate as run_migrations

    settings, _ = _load(config, data_dir=data_dir)
    configure_logs(settings.log_level, settings.log_format)
    try:
        asyncio.run(run_migrations(settings, console))
    except StartupError as error:
        _fail(error)


@app.command()
def doctor(config: Config = None, data_dir: DataDir = None) -> None:
    """Print the effective configuration (secrets masked) and check everything the server depends on."""

    from antiphon.cli.doctor import examine

    settings, path = _load(config, data_dir=data_dir)
    configure_logs("error", settings.log_format)  # what is wrong stands in the table
    if not asyncio.run(examine(settings, path, console)):
        raise typer.Exit(1)


@app.command()
def usage(
    config: Config = None,
    data_dir: DataDir = None,
    by: Annotated[str, typer.Option(help="tenant, agent, model or day.")] = "tenant",
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD. Default: the 1st.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default today.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs, as GET /v1/usage.")] = False,
) -> None:
    """Print what was used and what it cost; days are those of UTC."""

    from antiphon.cli.usage import usage as show_usage

    settings, _ = _load(config, data_dir=data_dir)
    configure_logs("error", settings.log_format)
    try:
        asyncio.run(show_usage(settings, console, by=by, first=first, last=last, tenant=tenant, as_json=as_json))
    except StartupError as error:
        _fail(error)


keys = typer.Typer(help="Make, list and revoke keys, revoke tokens, also while servers run.", no_args_is_help=True)
app.add_typer(keys, name="keys")


@keys.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="Names it in lists; keys of one name and tenant are one caller.")],
    config: Config = None,
    data_dir: DataDir = None,
    tenant: Annotated[str, typer.Option(help="Whose runs it sees.")] = "default",
    role: Annotated[str, typer.Option(help="viewer, driver, operator or admin.")] = "driver",
    user: Annotated[str | None, typer.Option(help="The person whose key it is.")] = None,
    days: Annotated[float | None, typer.Option(min=0, help="After which it runs out. Default: never.")] = None,
) -> None:
    """Print a new key, once."""

    from antiphon.cli import keys as stored_keys

    if role not in ROLES:
        _fail(StartupError(f"there is no role {role!r}; it is one of {', '.join(ROLES)}"))
    settings, _ = _load(config, data_dir=data_dir)
    work = stored_keys.create(settings, console, name=name, tenant=tenant, role=role, user=user, days=days)
    _at_the_store(settings, work)


@keys.command("list")
def keys_list(
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Print all keys, but not what they are."""

    from antiphon.cli import keys as stored_keys

    settings, _ = _load(config, data_dir=data_dir)
    _at_the_store(settings, stored_keys.show(settings, console, as_json=as_json))


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` shows it.")],
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Take a key back. Its sockets are closed within seconds."""

    from antiphon.cli import keys as stored_keys

    settings, _ = _load(config, data_dir=data_dir)
    _at_the_store(settings, stored_keys.revoke(settings, console, key_id))


@keys.command("revoke-token")
def keys_revoke_token(
    token_id: Annotated[str, typer.Argument(help="Its claim `jti`.")],
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Take a signed token back. Its sockets are closed within seconds."""
    from antiphon.cli import keys as stored_keys

    settings, _ = _load(config, data_dir=data_dir)
    _at_the_store(settings, stored_keys.revoke_token(settings, console, token_id))


@keys.command("revoke-tokens")
def keys_revoke_tokens(
    user: Annotated[str, typer.Argument(help="As its tokens name it.")],
    config: Config = None,
    data_dir: DataDir = None,
    tenant: Annotated[str | None, typer.Option(help="Of the tokens. Default: those without a tenant.")] = None,
) -> None:
    """Take back all signed tokens that were issued to a user until now."""
    from antiphon.cli import keys as stored_keys

    settings, _ = _load(config, data_dir=data_dir)
    _at_the_store(settings, stored_keys.revoke_tokens_of(settings, console, user, tenant))


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


async def _serve(
    settings: Settings,
    config: Path | None,
    on_started: Callable[[str], None] | None = None,
    listener: socket.socket | None = None,
) -> None:
    from antiphon.app import Antiphon
    from antiphon.server import AntiphonServer

    server = AntiphonServer(Antiphon(settings, config=config))
    await server.serve(on_started or (lambda url: _banner(settings, url)), listener)


def _banner(settings: Settings, url: str) -> None:
    key = "any key" if not settings.auth_required else "one of your keys"
    models = "the built-in models" if not settings.upstreams else "your upstream and the built-in models"
    console.print(f"[bold]Antiphon {__version__}[/bold] answers with {models}.\n")
    chat = f"{url}, with one of your keys" if settings.auth_required else url
    console.print(f"  Chat in the browser   {escape(chat)}", soft_wrap=True)
    console.print(f"  Watch all runs        {escape(url)}/ops", soft_wrap=True)
    console.print(f"  OpenAI clients        base_url={escape(url)}/v1  api_key={escape(key)}", soft_wrap=True)
    console.print(f"  Data                  {escape(str(settings.data_path))}", soft_wrap=True)
    console.print("\n  Try it                model antiphon/demo or antiphon/echo\n")


def _as_client(command: Callable[[], int]) -> NoReturn:
    """Run a command that talks to a server, and leave with its exit status."""
    try:
        raise typer.Exit(command())
    except ClientError as error:
        Console(stderr=True, highlight=False).print(
            f"[red]antiphon:[/red] {escape(error.message)}", soft_wrap=True
        )
        raise typer.Exit(1) from error


def _at_the_store(settings: Settings, work: Coroutine[Any, Any, None]) -> None:
    configure_logs("error", settings.log_format)
    try:
        asyncio.run(work)
    except StartupError as error:
        _fail(error)


def _load(config: Path | None, **flags: object) -> tuple[Settings, Path | None]:
    try:
        return load_settings(config, **flags)
    except StartupError as error:
        _fail(error)


def _fail(error: StartupError) -> NoReturn:
    Console(stderr=True, highlight=False).print(
        f"[red]antiphon cannot start:[/red] {escape(error.message)}", soft_wrap=True
    )
    raise typer.Exit(2)
