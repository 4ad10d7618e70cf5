"""Names of agents, and how a create names one."""

from __future__ import annotations

import pytest

from antiphon.core.agent_names import check_agent_name, named
from antiphon.errors import RequestError


@pytest.mark.parametrize("name", ["a", "7", "reviewer", "team/reviewer:v2", "a.b_c-d", "a" * 128])
def test_a_name_of_letters_digits_and_few_signs_is_taken(name: str) -> None:
    assert check_agent_name(name, "name") == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a\n", "ä", "a" * 129, "a{b}", "a\x00"])
def test_any_other_name_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_agent_name(name, "antiphon.agent")
    assert (refused.value.code, refused.value.param) == ("invalid_request", "antiphon.agent")
    assert len(name) < 2 or name not in refused.value.message


@pytest.mark.parametrize(
    ("model", "agent", "found"),
    [
        (None, None, (None, None)),
        ("gpt", None, (None, "gpt")),
        ("agent:reviewer", None, ("reviewer", None)),
        (None, "reviewer", ("reviewer", None)),
        ("gpt", "reviewer", ("reviewer", "gpt")),
        ("agent:reviewer", "reviewer", ("reviewer", None)),
        ("agent:a:b", None, ("a:b", None)),
    ],
)
def test_an_agent_is_named_in_model_or_beside_it(
    model: str | None, agent: str | None, found: tuple[str | None, str | None]
) -> None:
    assert named(model, agent) == found


def test_two_different_agents_are_refused() -> None:
    with pytest.raises(RequestError) as refused:
        named("agent:a", "b")
    assert refused.value.param == "antiphon.agent"
