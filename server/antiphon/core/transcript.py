"""What a chain of turns says to a model, part by part."""

from __future__ import annotations


class Transcript:
    """The parts lie in one list that all turns of a chain share: each sees its own beginning of it.

    The newest turn appends, and who continues an older one gets a list of his own. So a turn costs what it adds,
    and the whole is joined as fast as memory is copied, however many turns there were.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, parts: list[bytes] | None = None) -> None:
        self._parts = [] if parts is None else parts
        self._count = len(self._parts)

    def then(self, *parts: bytes) -> Transcript:
        """This one, and these parts behind it; empty ones are left out."""
        shared = self._parts if len(self._parts) == self._count else self._parts[: self._count]
        shared.extend(part for part in parts if part)
        return Transcript(shared)

    def parts(self) -> list[bytes]:
        """All of it: encoded items, several of them in one part joined by commas."""
        return self._parts[: self._count]
