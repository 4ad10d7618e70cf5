"""What a model call came to when its upstream did not count: an estimate, and what a run has spent so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.outcome import normal_usage
from antiphon.core.compaction import BYTES_PER_TOKEN, estimate_tokens
from antiphon.core.rounds import add_usage

_READ = ("instructions", "input", "tools")
"""Fields of a model call that the model reads."""


@dataclass(frozen=True, slots=True)
class Said:
    """How much a model gave in one call, in bytes of UTF-8. reasoning_bytes: the part that is reasoning."""

    output_bytes: int = 0
    reasoning_bytes: int = 0

    def __bool__(self) -> bool:
        return self.output_bytes > 0


@dataclass(frozen=True, slots=True)
class Spent:
    """The sum over the model calls of a run. usage: as on the wire, None before the first call.

    cost_nano: in 10^-9 of the currency of the prices; None before the first call, and once one price is unknown.
    estimated: the upstream of one call or more did not count.
    """

    calls: int = 0
    usage: dict[str, Any] | None = None
    cost_nano: int | None = None
    estimated: bool = False

    @property
    def cost(self) -> float | None:
        """The cost as run states and events show it."""
        return None if self.cost_nano is None else self.cost_nano / 1e9

    def plus(self, usage: dict[str, Any], cost_nano: int | None, estimated: bool = False) -> Spent:
        """With one more call. cost_nano: None if its price is unknown, and then nobody knows the sum.

        estimated: its upstream did not count.
        """
        known = 0 if self.calls == 0 else self.cost_nano
        total = None if known is None or cost_nano is None else known + cost_nano
        return Spent(self.calls + 1, add_usage(self.usage, usage), total, self.estimated or estimated)


def said_in(items: Iterable[OpenItem]) -> Said:
    """How much the model gave in these items, finished or not."""
    output = reasoning = 0
    for item in items:
        size = sum(len(text.split.text.encode("utf-8", "surrogatepass")) for text in item.texts.values())
        size += len(str(item.upstream.get("name") or ""))
        output += size
        reasoning += size if item.type == "reasoning" else 0
    return Said(output, reasoning)


def estimated_usage(body: bytes, said: Said) -> dict[str, Any]:
    """A usage as on the wire, at four bytes a token. body: the encoded model call."""
    asked = orjson.loads(body)
    usage = normal_usage(
        {
            "input_tokens": estimate_tokens([asked[key] for key in _READ if asked.get(key)]),
            "output_tokens": _tokens(said.output_bytes),
            "output_tokens_details": {"reasoning_tokens": _tokens(said.reasoning_bytes)},
        }
    )
    assert usage is not None
    return usage


def _tokens(size_bytes: int) -> int:
    return -(-size_bytes // BYTES_PER_TOKEN)
