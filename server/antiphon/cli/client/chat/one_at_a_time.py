"""Several runs of a conversation may talk at once; a terminal shows one after the other."""

from __future__ import annotations

from antiphon.cli.client.chat.told import Before, Began, Called, Ended, Piece, Rewound, Told

_OF_A_RUN = (Before, Began, Called, Ended, Piece, Rewound)


class OneAtATime:
    """Keeps back what other runs say until the one that is shown has ended."""

    def __init__(self) -> None:
        self._shown: str | None = None
        self._kept: dict[str, list[Told]] = {}

    def add(self, told: Told) -> list[Told]:
        """What is to be shown now, in order."""
        if not isinstance(told, _OF_A_RUN) or (isinstance(told, Before) and told.is_ended):
            return [told]
        if self._shown not in (None, told.run_id):
            self._kept.setdefault(told.run_id, []).append(told)
            return []
        self._shown = told.run_id
        return [told, *self._next()] if isinstance(told, Ended) else [told]

    def _next(self) -> list[Told]:
        """The run is over: what the others said meanwhile, up to the first that still goes on."""
        shown: list[Told] = []
        self._shown = None
        while self._kept and self._shown is None:
            run_id = next(iter(self._kept))
            kept = self._kept.pop(run_id)
            shown += kept
            self._shown = None if isinstance(kept[-1], Ended) else run_id
        return shown
