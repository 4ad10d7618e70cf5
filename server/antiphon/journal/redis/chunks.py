"""Entries of a stream, merged into rows of the store's journal."""

from __future__ import annotations

from antiphon.store.records import Chunk

_CHUNK_BYTES = 256 * 1024
"""Events of one row together; one entry that is bigger stays whole."""


class Merger:
    """Takes entries in order, gives rows."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._chunks: list[Chunk] = []
        self._first = 0
        self._next = 0
        self._payloads: list[bytes] = []
        self._size = 0

    def add(self, first: int, payload: bytes) -> None:
        """An entry that begins with number `first`. One that does not follow begins a row of its own."""
        if self._payloads and (first != self._next or self._size + len(payload) > _CHUNK_BYTES):
            self._close()
        if not self._payloads:
            self._first = first
        self._payloads.append(payload)
        self._size += len(payload)
        self._next = first + payload.count(b"\n") + 1

    def full(self) -> list[Chunk]:
        """The rows that are complete; each is given once."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def finish(self) -> list[Chunk]:
        """The rows that are left."""
        if self._payloads:
            self._close()
        return self.full()

    def _close(self) -> None:
        self._chunks.append((self._run_id, self._first, self._next - 1, b"\n".join(self._payloads)))
        self._payloads, self._size = [], 0
