"""What a run may have of the server's tools: its tenant's, and of these its agent's."""

from __future__ import annotations

import pytest

from antiphon.core.tool_scope import EVERYTHING, ToolScope

A, B, NONE = frozenset({"a"}), frozenset({"b"}), frozenset[str]()


@pytest.mark.parametrize(
    ("tenant", "agent", "has_a"),
    [
        (None, None, True),
        (A, None, True),
        (None, A, True),
        (A, A, True),
        (A, B, False),
        (B, A, False),
        (NONE, None, False),
    ],
)
def test_both_lists_count_an_absent_one_restricts_nothing_and_an_empty_one_gives_nothing(
    tenant: frozenset[str] | None, agent: frozenset[str] | None, has_a: bool
) -> None:
    assert ("a" in ToolScope(tenant, agent)) == has_a


def test_without_lists_everything_is_there() -> None:
    assert "anything" in EVERYTHING


def test_what_only_the_agent_lacks_its_tenant_has() -> None:
    scope = ToolScope(A, NONE)
    assert scope.has_tenant("a")
    assert not scope.has_agent("a")
