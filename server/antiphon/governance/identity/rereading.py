"""Reading again and again what the store says, for what nobody tells us of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from antiphon.errors import StorageError

log = structlog.get_logger(__name__)


async def read_forever(read: Callable[[], Awaitable[None]], every_s: float, failure: str) -> None:
    """Call `read` every so often; one that raises StorageError is logged as `failure` and made again next time."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await read()
        except StorageError as error:
            log.warning(failure, error=str(error.__cause__ or error))
