"""The operators' page in a real Chromium against real servers: one server and one browser for many scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.playing import chromium, run_scenarios
from tests.http.calling import key_of
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.browser

ASKING = """
description = "A text, one call that a client has to answer, and a last word."
[[turns]]
[[turns.steps]]
text = "One thing first. "
[[turns.steps]]
call = { name = "ask_person", arguments = { question = "<img src=x onerror=alert(1)> Which colour?" } }
[[turns]]
[[turns.steps]]
text = "Thank you."
"""
WATCHED = """
description = "A text of 400 words, slow enough to watch it."
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 20
repeat = 400
"""
BRIEF = """
description = "Forty words in two seconds, for replays."
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 20
repeat = 40
"""

CUT_SHORT = """
description = "A text that ends too early."
[[turns]]
[[turns.steps]]
text = "This is all there is room"
[[turns.steps]]
incomplete = "max_output_tokens"
"""
LEAVING = """
description = "A text, slow enough to be talked into, and a call that is left open."
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 20
repeat = 60
[[turns.steps]]
call = { name = "ask_person" }
"""
STEADY = """
description = "Two hundred words in ten seconds, for rates."
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 20
repeat = 200
"""
PRICED = """
description = "Silence, then a text whose tokens its upstream counts."
[[turns]]
usage = { input_tokens = 1000, output_tokens = 400 }
[[turns.steps]]
delay_s = 0.5
[[turns.steps]]
text = "It took a while."
"""
RATE_LIMITED = """
description = "A text, and then an error with a code of its own."
[[turns]]
[[turns.steps]]
text = "This begins well."
[[turns.steps]]
error = { code = "rate_limit_exceeded", message = "Too many tokens." }
"""
CRASH = """
description = "A fault of the server."
[[turns]]
[[turns.steps]]
crash = "as the script says"
"""
SCRIPTS = {
    "asking": ASKING,
    "watched": WATCHED,
    "brief": BRIEF,
    "short": CUT_SHORT,
    "leaving": LEAVING,
    "steady": STEADY,
    "priced": PRICED,
    "rate_limited": RATE_LIMITED,
    "crash": CRASH,
}

KEYS = [
    *(key_of(role, name=role, tenant="acme", role=role) for role in ("viewer", "driver", "operator")),
    key_of("admin", name="admin", tenant="default", role="admin"),
    key_of("foreign", name="foreign", tenant="other", role="driver"),
    key_of("idle", name="idle", tenant="idle", role="viewer"),
]
SETTINGS: dict[str, Any] = {
    "auth": "required",
    "key": KEYS,
    "tenant": [{"id": "acme"}, {"id": "other"}, {"id": "idle"}],
    # Nobody listens at the discard port.
    "upstream": [{"name": "dead", "url": "http://127.0.0.1:9/v1", "models": ["dead-model"]}],
    "price": [{"model": f"antiphon/script:{name}", "input": 2, "output": 10} for name in ("priced", "steady")],
}

WATCHING = [
    "every_one_of_two_hundred_runs_is_seen_to_begin_and_to_end",
    "a_run_is_opened_with_the_keyboard_and_cancelled_after_a_question",
    "an_ended_run_is_played_again_from_its_start",
    "what_runs_hold_stays_text",
    "filters_stand_in_the_address",
    "without_a_network_it_says_since_when_and_then_misses_nothing",
]
ROLES = [
    "a_viewer_signs_in_and_is_offered_nothing_that_changes_anything",
    "an_operator_pauses_its_tenant_and_resumes_it",
    "an_admin_sees_the_runs_of_all_tenants",
    "an_open_breaker_is_said_in_the_bar_and_in_the_panel",
    "it_is_accessible_in_both_themes_and_fits_a_phone",
]

PANEL = [
    "a_steer_is_seen_to_be_queued_and_heard_and_the_run_that_heard_it_is_linked",
    "a_steer_of_somebody_else_waits_for_the_next_run_which_is_linked_when_it_comes",
    "a_steer_that_was_not_heard_says_why",
    "html_in_any_name_or_text_is_shown_and_never_run",
    "every_dialog_is_accessible_in_both_themes",
    "the_panel_of_a_steered_run_is_accessible_in_both_themes",
    "on_a_phone_every_chip_and_every_figure_can_be_reached",
    "a_table_without_runs_is_accessible_in_both_themes_and_says_why",
]
FIGURES = [
    "errors_by_code_begin_with_the_page_and_are_counted_exactly",
    "tokens_costs_and_first_tokens_are_those_that_the_server_counts",
    "what_a_cancelled_run_used_is_said_to_be_an_estimate",
    "clients_are_those_that_are_attached",
    "rates_add_up_to_what_the_runs_wrote",
]
LISTS = {"watching": WATCHING, "roles": ROLES, "panel": PANEL, "figures": FIGURES}


@pytest.mark.parametrize("scenarios", LISTS.values(), ids=LISTS)
async def test_in_the_browser(scenarios: list[str], tmp_path: Path) -> None:
    chromium()
    _write_scripts(tmp_path)
    async with running_server(tmp_path, **SETTINGS) as server:
        await run_scenarios("ops.mjs", server.url, scenarios)


async def test_a_server_that_comes_back_with_another_feed_is_read_anew(tmp_path: Path) -> None:
    chromium()
    _write_scripts(tmp_path)
    async with ServerProcess(tmp_path) as server:

        async def restart() -> str:
            await server.kill()
            await server.start()
            return server.url

        await run_scenarios("ops.mjs", server.url, ["a_feed_that_began_anew_is_said_to"], restart)


def _write_scripts(data_dir: Path) -> None:
    scripts = data_dir / "scripts"
    scripts.mkdir()
    for name, text in SCRIPTS.items():
        (scripts / f"{name}.toml").write_text(text, encoding="utf-8")
