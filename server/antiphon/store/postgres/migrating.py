"""The tables in PostgreSQL. Where several nodes start at once, one makes them and the others wait."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa

from antiphon.errors import StartupError
from antiphon.store import schema
from antiphon.store.postgres.connection import check_server, connect, place_of, reason

LOCK_KEY = 0x616E7469_70686F6E
"""Of the advisory lock: any number that nobody else takes in this database."""

LOCK_WAIT_S = 60
"""What another node gets for its migrations, and what a statement waits for a table somebody works on."""


def migrate(url: str, timeout_s: float) -> schema.Migrated:
    """Bring the tables up to date. timeout_s: to connect. Raises StartupError."""
    check_server(url, timeout_s)
    place = place_of(url)
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _connect(url), poolclass=sa.NullPool)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
            return schema.upgrade(connection, place)
    except sa.exc.DBAPIError as error:
        raise StartupError(f"the tables in {place} cannot be made: {_why(error, url)}") from error
    finally:
        engine.dispose()


def schema_version(url: str) -> str | None:
    """Of the tables that are there, None where there are none. Raises StartupError."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _connect(url), poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            return schema.version(connection)
    except sa.exc.DBAPIError as error:
        raise StartupError(f"the tables in {place_of(url)} cannot be read: {_why(error, url)}") from error
    finally:
        engine.dispose()


def _connect(url: str) -> psycopg.Connection[object]:
    """A migration may take its time, but what it waits for has an end."""
    connection = connect(url, LOCK_WAIT_S)
    connection.answer_within_s = None
    connection.execute(
        "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', %s, false),"
        " set_config('idle_in_transaction_session_timeout', '0', false)",
        (f"{LOCK_WAIT_S * 1000:.0f}ms",),
    )
    connection.autocommit = False
    return connection


def _why(error: sa.exc.DBAPIError, url: str) -> str:
    if isinstance(error.orig, psycopg.errors.LockNotAvailable):
        return f"another node, or somebody else, has held them for {LOCK_WAIT_S} s"
    return reason(error.orig, url) if isinstance(error.orig, psycopg.Error) else str(error.orig)
