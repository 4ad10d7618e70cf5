"""What a measure is: one run of a load client, the figures taken out of its result, and what is wanted of them."""

from dataclasses import dataclass
from typing import Literal

OURS = "antiphon"
GATEWAY = "agentic-server"
ECHO = "echo"
SENDER = "c-sender"
Kind = Literal["ours", "gateway", "prepared"]
"""Of servers: ours, another that does the whole job, or one that only sends prepared frames."""
Grade = Literal["met", "first met", "missed"]


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted of a figure, or of its ratio to a peer."""

    first: float
    then: float | None = None
    """What is wanted once `first` is reached."""
    against: str | None = None
    """The peer whose ratio is judged; None: the figure itself."""
    at_least: bool = False

    def __str__(self) -> str:
        unit = f" × {self.against}" if self.against else ""
        then = "" if self.then is None else f", then {self.then:g}"
        return f"{'≥' if self.at_least else '≤'} {self.first:g}{unit}{then}"

    def grade(self, value: float) -> Grade:
        """How much of it a figure or ratio reaches."""
        if not self._reached(self.first, value):
            return "missed"
        return "met" if self.then is None or self._reached(self.then, value) else "first met"

    def _reached(self, limit: float, value: float) -> bool:
        return value >= limit if self.at_least else value <= limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One number taken out of a load client's result."""

    key: str
    title: str
    path: str
    """Dotted path in the JSON of the load client."""
    unit: str
    digits: int = 1
    better: str = "lower"
    """`lower`, `higher`, or `none` for a number that is context, not a claim."""
    target: Target | None = None
    less_rig: bool = False
    """Ratios are of what the servers add to the rig's own value."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of the load client and the figures it gives."""

    key: str
    arguments: tuple[str, ...]
    figures: tuple[Figure, ...]
    on_rig: bool = False
    """Run it straight against the mock as well, to know what the rig itself costs."""
    ours_only: bool = False
    """The gateway has nothing like it."""
    prepared: bool = False
    """Peers that only send prepared frames take part."""
    fresh: bool = False
    """On a server of its own, whose heap nothing else has filled."""
    nodes: int = 1
    """So many nodes of a cluster are told to the load client."""
    script: str = "load.py"
    """The load client; `translation.py` runs alone, with the Python of our server."""
    settings: tuple[str, ...] = ()
    """`NAME=value` pairs for the environment of our server; it is then a fresh one."""
    needs: str = ""
    """An option of `antiphon serve` without which it is skipped."""

    def takes(self, kind: Kind) -> bool:
        """Whether servers of this kind take part."""
        return kind == "ours" or (self.prepared if kind == "prepared" else not self.ours_only)
