"""What calls of models cost. Amounts are whole billionths of the currency the prices are in: sums are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

NANO = 1_000_000_000
_MILLION = 1_000_000
_MOST = 1_000_000_000
"""Tokens that a call can come to: what an upstream claims must not break the sums, which have 64 bits."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of one call or of several. cached is part of input, reasoning of output."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0


def tokens_of(usage: Mapping[str, Any]) -> Tokens:
    """Of a Responses `usage` object; what is missing, negative or no number counts as 0."""
    given, made = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    cached = _count(_detail(usage, "input_tokens_details", "cached_tokens"))
    reasoning = _count(_detail(usage, "output_tokens_details", "reasoning_tokens"))
    total = _count(usage.get("total_tokens")) or given + made
    return Tokens(given, min(cached, given), made, min(reasoning, made), total)


@dataclass(frozen=True, slots=True)
class Price:
    """Of one model, per million tokens. cached: of input that the upstream had in its cache; None: as `input`."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None

    def cost_nano(self, tokens: Tokens) -> int:
        """What these tokens cost, in billionths, rounded half to even."""
        cached = self.input if self.cached is None else self.cached
        per_million = (
            self.input * (tokens.input - tokens.cached) + cached * tokens.cached + self.output * tokens.output
        )
        return int((per_million * (NANO // _MILLION)).to_integral_value(ROUND_HALF_EVEN))


def add_cost(one: int | None, other: int | None) -> int | None:
    """The sum; unknown if one of them is."""
    return None if one is None or other is None else one + other


def amount(nano: int | None) -> float | None:
    """An amount as it stands in JSON."""
    return None if nano is None else nano / NANO


def nano(value: Decimal) -> int:
    """Billionths of an amount."""
    return int((value * NANO).to_integral_value(ROUND_HALF_EVEN))


def _detail(usage: Mapping[str, Any], group: str, name: str) -> Any:
    details = usage.get(group)
    return details.get(name) if isinstance(details, Mapping) else None


def _count(value: Any) -> int:
    return min(value, _MOST) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
