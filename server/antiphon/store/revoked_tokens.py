"""Signed tokens that were taken back: one by its id, or all that a user had at a time."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from antiphon.store.reading import BoundedReader
from antiphon.store.tables import revoked_tokens
from antiphon.store.writing import StoreConnection, Work

_REVOKE = """
INSERT INTO revoked_tokens (id, revoked_at) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET revoked_at = excluded.revoked_at
WHERE excluded.revoked_at > revoked_tokens.revoked_at
"""


def one_token(token_id: str) -> str:
    """The id of the row for the token with this `jti`; also how a principal names its credential."""
    return f"jwt:{token_id}"


def tokens_of(tenant: str, principal: str) -> str:
    """The id of the row for all tokens of a caller that were issued until it was revoked."""
    return f"all:{tenant}/{principal}"


class RevokedTokenRows:
    """Reads them."""

    def __init__(self, reader: BoundedReader) -> None:
        self._reader = reader

    async def since(self, at: float) -> Mapping[str, float]:
        """What was revoked from a time on (Unix seconds), and when. Raises StorageError."""
        table = revoked_tokens.c
        rows = await self._reader.rows(sa.select(table.id, table.revoked_at).where(table.revoked_at >= at))
        return {row[0]: row[1] for row in rows}


def revoke(row_id: str, now: float) -> Work[None]:
    """Take back. row_id: of `one_token` or `tokens_of`."""

    def work(connection: StoreConnection) -> None:
        connection.execute(_REVOKE, (row_id, now))

    return work
