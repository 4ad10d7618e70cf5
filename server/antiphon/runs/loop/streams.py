"""Ending the stream of a model call: at once, or by reading what follows its terminal event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import structlog

from antiphon.errors import UpstreamError

log = structlog.get_logger(__name__)

_LINGER_S = 1.0
"""How long an upstream may take to close its stream after its terminal event, so that the connection is reused."""


async def close(stream: AsyncIterator[Sequence[bytes]]) -> None:
    """Close the upstream's connection. Never raises for a stream that cannot be closed."""
    try:
        await cast(Any, stream).aclose()
    except Exception:
        log.exception("upstream_close_failed")


async def read_out(stream: AsyncIterator[Sequence[bytes]]) -> None:
    """Read what follows the terminal event, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_LINGER_S):
            async for _ in stream:
                pass
    except (TimeoutError, UpstreamError):
        pass
    finally:
        await close(stream)
