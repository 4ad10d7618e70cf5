"""What every process on one database shares. Where several make it at once, the first one wins."""

from __future__ import annotations

import base64
import secrets

from antiphon.store.writing import StoreConnection, Work, Writer

_KEEP = "INSERT INTO cluster (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_READ = "SELECT value FROM cluster WHERE name = ?"


def keep(name: str, value: bytes) -> Work[bytes]:
    """Put a value where there is none; gives the one that counts."""

    def work(connection: StoreConnection) -> bytes:
        connection.execute(_KEEP, (name, value))
        return bytes(connection.execute(_READ, (name,)).fetchone()[0])

    return work


def read(name: str) -> Work[bytes | None]:
    """The value, None if there is none."""

    def work(connection: StoreConnection) -> bytes | None:
        row = connection.execute(_READ, (name,)).fetchone()
        return None if row is None else bytes(row[0])

    return work


async def database_id(writer: Writer) -> str:
    """What tells this database from all others, made with its tables. Raises StorageError."""
    return (await writer.submit(keep("database_id", secrets.token_hex(16).encode()))).decode()


async def seal_key(writer: Writer) -> str:
    """The key with which all nodes seal compactions, made by the first that asks. Raises StorageError."""
    made = base64.b64encode(secrets.token_bytes(32))
    return (await writer.submit(keep("seal_key", made))).decode()
