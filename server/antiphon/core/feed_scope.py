"""Which runs a subscription to a feed is told of: what its caller may see, and what it asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from antiphon.core.principal import Principal, is_tenant
from antiphon.core.run_state import RunState, State
from antiphon.errors import RequestError

FILTER_FIELDS = ("state", "agent", "model", "principal", "conversation_id")
MAX_VALUES = 100
"""Of one field of a filter."""


class Facts(NamedTuple):
    """What of a run decides who is told of it."""

    state: str
    agent: str | None
    model: str
    principal: str
    conversation_id: str
    visibility: str

    @classmethod
    def of(cls, state: RunState) -> Facts:
        return cls(state.state, state.agent, state.model, state.principal, state.conversation_id, state.visibility)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Facts:
        """row: the wire form of a RunState."""
        return cls(
            row["state"],
            row.get("agent"),
            row["model"],
            row["principal"],
            row.get("conversation_id") or "",
            row.get("visibility", "tenant"),
        )


Wanted = frozenset[str] | None
"""The values of a field that pass; None: all."""


@dataclass(frozen=True, slots=True)
class FeedScope:
    """Equal scopes are told the same. sees: whose private runs are shown; None: everybody's."""

    sees: str | None = None
    state: Wanted = None
    agent: Wanted = None
    model: Wanted = None
    principal: Wanted = None
    conversation_id: Wanted = None

    @classmethod
    def of(cls, principal: Principal, wanted: Mapping[str, str | Iterable[str] | None]) -> FeedScope:
        """wanted: values by the field of a filter; none for a field, or an empty list, lets everything through.

        Raises RequestError for values nothing can have.
        """
        fields: dict[str, Wanted] = {}
        for name in FILTER_FIELDS:
            given = wanted.get(name)
            values = frozenset([given] if isinstance(given, str) else given or ())
            if len(values) > MAX_VALUES:
                raise RequestError(f"{name}: at most {MAX_VALUES} values.", param=name)
            fields[name] = values or None
        unknown = sorted((fields["state"] or frozenset()) - set(get_args(State)))
        if unknown:
            raise RequestError(f"state: there is no state {unknown[0][:80]!r}.", param="state")
        return cls(None if principal.at_least("operator") else principal.id, **fields)

    def may_see(self, facts: Facts) -> bool:
        """Whether the caller may know of the run at all; that never changes."""
        return self.sees is None or facts.visibility != "private" or facts.principal == self.sees

    def passes(self, facts: Facts) -> bool:
        """Whether the run is shown as it is now."""
        return (
            self.may_see(facts)
            and _is_wanted(facts.state, self.state)
            and _is_wanted(facts.agent, self.agent)
            and _is_wanted(facts.model, self.model)
            and _is_wanted(facts.principal, self.principal)
            and _is_wanted(facts.conversation_id, self.conversation_id)
        )


def _is_wanted(value: str | None, wanted: Wanted) -> bool:
    return wanted is None or value in wanted


def feed_tenant(principal: Principal, wanted: str | None) -> str:
    """The tenant whose feed is meant. Raises RequestError `tenant_not_found` for one the caller may not watch."""
    if wanted is None or wanted == principal.tenant:
        return principal.tenant
    if not principal.at_least("admin") or not is_tenant(wanted):
        raise RequestError("There is no such tenant.", code="tenant_not_found", param="tenant")
    return wanted
