"""The figures that `redis_load.py --docs` writes into docs/scaling.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis_page import BEGIN, END, PAGE, page, write_page

from tests.bench.test_redis_table import COSTS


def found(foreign_cores: float = 0.0) -> dict[str, Any]:
    """What a run of the bench writes, with two tries of one step."""
    step = {
        "offered_per_s": 5000.0,
        "p50_ms": 5.0,
        "redis_cores": 0.2,
        "model_cores": 0.3,
        "foreign_cores": foreign_cores,
    }
    setup = {
        "date": "2026-12-01T10:00:00+00:00",
        "machine": "two cores",
        "options": "none",
        "revision": "abc",
        "versions": {"redis": "Valkey 9"},
    }
    return {
        "setup": setup,
        "costs": COSTS,
        "steps": [step | {"p99_ms": 99.0, "bent": "machine"}, step | {"p99_ms": 11.0, "bent": ""}],
        "carried_events_per_s": 4990.0,
    }


def test_figures_replace_those_between_the_marks_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "scaling.md"
    place.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_page(found(), place)
    assert place.read_text() == f"before\n{BEGIN}\n\n{page(found())}\n\n{END}\nafter\n"


def test_a_page_without_the_marks_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "scaling.md"
    place.write_text(f"before\n{BEGIN}\nold\n")
    with pytest.raises(ValueError, match="marks"):
        write_page(found(), place)
    assert place.read_text() == f"before\n{BEGIN}\nold\n"


def test_the_page_of_the_docs_has_the_marks_in_their_order() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert 0 < text.find(BEGIN) < text.find(END)


def test_figures_of_a_busy_machine_are_said_to_be_that() -> None:
    assert "a quiet machine" in page(found(foreign_cores=0.05))
    assert "not to be trusted" in page(found(foreign_cores=0.5))


def test_of_the_tries_of_one_step_the_last_is_shown() -> None:
    shown = page(found())
    assert ("11.0 ms" in shown, "99.0 ms" in shown) == (True, False)
