"""Ending the stream of a model call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import structlog

log = structlog.get_logger(__name__)


async def close(stream: AsyncIterator[Sequence[bytes]]) -> None:
    """End the call. The connection of one that said how it ended is read to its end and used again (`Upstream`).

    Never raises for a stream that cannot be closed.
    """
    try:
        await cast(Any, stream).aclose()
    except Exception:
        log.exception("upstream_close_failed")
