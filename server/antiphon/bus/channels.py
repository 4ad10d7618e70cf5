"""Who listens to which channel within this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

log = structlog.get_logger(__name__)

Listener = Callable[[bytes], None]


class Channels:
    """Listeners by channel. Iterating gives the channels somebody listens to."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._listeners)

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, channel: str, listener: Listener) -> None:
        self._listeners.setdefault(channel, []).append(listener)

    def remove(self, channel: str, listener: Listener) -> bool:
        """Whether this was the last one of the channel. Nothing if it does not listen."""
        listeners = self._listeners.get(channel, [])
        if listener not in listeners:
            return False
        listeners.remove(listener)
        if listeners:
            return False
        del self._listeners[channel]
        return True

    def tell(self, channel: str, payload: bytes) -> None:
        """A listener that fails is logged and does not keep others from hearing it."""
        for listener in tuple(self._listeners.get(channel, ())):
            try:
                listener(payload)
            except Exception:
                log.exception("a listener failed", channel=channel)
