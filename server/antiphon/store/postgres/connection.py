"""Connections to PostgreSQL that answer within a time, and sentences about those that do not.

URLs go to libpq as they are: several hosts, `sslmode`, a password file and everything else it knows work.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any, Final

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumper

from antiphon.errors import StartupError

MIN_VERSION: Final = 13
_IDLE_IN_TRANSACTION_S = 2.0
"""When the server ends a transaction whose node has fallen silent in it: its locks would hold up the others."""
_GRACE_S = 0.5
"""What the server gets to say by itself that a statement took too long, before the connection is given up."""
_NEEDED = {"client_encoding": "utf8", "application_name": "antiphon", "target_session_attrs": "read-write"}


class NoAnswer(psycopg.OperationalError):
    """The server took longer than a statement may take. The connection is closed; what became of it is unknown."""


class _TextDumper(StrDumper):
    """Text as PostgreSQL takes it: it has no NUL characters."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\x00", "\ufffd").encode()


class BoundedConnection(psycopg.Connection[Any]):
    """A connection whose statements end in time, even when the server is frozen or the network cut."""

    answer_within_s: float | None = None

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        started = time.monotonic()
        try:
            return super().wait(gen, interval, self.answer_within_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if time.monotonic() - started >= (self.answer_within_s or math.inf):
                self.pgconn.finish()  # it still waits for its answer: nobody can use it any more
                raise NoAnswer("PostgreSQL did not answer in time") from error
            raise


class BoundedAsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for the event loop."""

    answer_within_s: float | None = None

    async def wait(
        self,
        gen: PQGen[Any],
        interval: float = 0.1,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is psycopg's
    ) -> Any:
        started = time.monotonic()
        try:
            return await super().wait(gen, interval, self.answer_within_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if time.monotonic() - started >= (self.answer_within_s or math.inf):
                self.pgconn.finish()  # it still waits for its answer: nobody can use it any more
                raise NoAnswer("PostgreSQL did not answer in time") from error
            raise


def connect(url: str, timeout_s: float) -> BoundedConnection:
    """A connection in autocommit mode. timeout_s: for each statement. Raises psycopg.Error."""
    connection = BoundedConnection.connect(url, autocommit=True, **_parameters(url, timeout_s))
    connection.answer_within_s = timeout_s + _GRACE_S
    connection.adapters.register_dumper(str, _TextDumper)
    try:
        connection.execute(_LIMITS, _limits(timeout_s))
    except BaseException:
        connection.close()
        raise
    return connection


async def connect_async(url: str, timeout_s: float) -> BoundedAsyncConnection:
    """The same for the event loop, and only for reading. Raises psycopg.Error."""
    connection = await BoundedAsyncConnection.connect(url, autocommit=True, **_parameters(url, timeout_s))
    connection.answer_within_s = timeout_s + _GRACE_S
    connection.adapters.register_dumper(str, _TextDumper)
    try:
        await connection.execute(_LIMITS, _limits(timeout_s))
        await connection.execute("SELECT set_config('default_transaction_read_only', 'on', false)")
    except BaseException:
        await connection.close()
        raise
    return connection


def check_server(url: str, timeout_s: float) -> str:
    """Connect once and look whether we can work with what is there; gives its version. Raises StartupError."""
    place = place_of(url)
    try:
        with connect(url, timeout_s) as connection:
            version = connection.info.server_version
            encoding = connection.info.parameter_status("server_encoding")
    except psycopg.Error as error:
        raise StartupError(f"the database {place} cannot be used: {reason(error, url)}") from error
    if version < MIN_VERSION * 10_000:
        raise StartupError(
            f"the database {place} is PostgreSQL {version // 10_000}; antiphon needs {MIN_VERSION} or newer"
        )
    if encoding != "UTF8":
        raise StartupError(f"the database {place} has the encoding {encoding}; create it with ENCODING 'UTF8'")
    return f"{version // 10_000}.{version % 10_000}"


def place_of(url: str) -> str:
    """Where a URL leads, for people: user, host, port and database, never a password. Raises StartupError."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise StartupError(f"store_url is not a PostgreSQL URL: {reason(error, url)}") from error
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def reason(error: psycopg.Error, url: str) -> str:
    """What libpq or the server says, in one line without the password."""
    text = (error.diag.message_primary or str(error)).replace(url, "(the URL)")
    text = re.sub(r"://\S*@", "://", text)
    _, _, secret = url.partition("://")[2].rpartition("@")[0].partition(":")
    if secret:
        text = text.replace(f'"{secret}"', '"***"')
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # One line for each host that was tried; behind it may stand advice that is not for us.
    failed = [
        line.rpartition("failed: ")[2].removeprefix("FATAL:").strip() for line in lines if "failed: " in line
    ]
    return "; ".join(dict.fromkeys(failed)) or " ".join(lines) or type(error).__name__


def _parameters(url: str, timeout_s: float) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    # Below 2 libpq takes it for 2; the kernel gives up on a silent peer as soon as we do.
    bounds = {"connect_timeout": max(2, math.ceil(timeout_s)), "tcp_user_timeout": math.ceil(timeout_s * 1000)}
    return {name: value for name, value in (_NEEDED | bounds).items() if name not in given}


_LIMITS = """
SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false)
"""


def _limits(timeout_s: float) -> tuple[str, str, str]:
    """Of the session, in milliseconds: a lock that is not given in half the time costs one work, not its group."""
    idle_s = min(timeout_s, _IDLE_IN_TRANSACTION_S)
    return tuple(str(math.ceil(s * 1000)) for s in (timeout_s, timeout_s / 2, idle_s))  # type: ignore[return-value]
