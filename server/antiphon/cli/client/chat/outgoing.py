"""Where decisions of a chat go: frames for the server, things for the person."""

from __future__ import annotations

from typing import Any

from antiphon.cli.client.chat.told import Told

Frame = dict[str, Any]

TRANSIENT = frozenset({"server_draining", "owner_unavailable", "storage_unavailable"})
"""Codes after which the same frame is right again, in a moment or on another connection."""


class Outgoing:
    """Collects what a chat wants done until somebody does it."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._told: list[Told] = []

    def send(self, *frames: Frame) -> None:
        self._frames.extend(frames)

    def tell(self, *told: Told) -> None:
        self._told.extend(told)

    def drain(self) -> tuple[list[Frame], list[Told]]:
        """All of it, once."""
        frames, told, self._frames, self._told = self._frames, self._told, [], []
        return frames, told
