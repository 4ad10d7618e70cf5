"""The chat page in a real Chromium against a real server, in scenarios that share server and browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.browser.playing import chromium, run_scenarios
from tests.http.calling import key_of
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.browser

SCRIPT = """
description = "A text of characters of one to four bytes, slow enough to watch it."
[[turns]]
[[turns.steps]]
text = "word{{n}} ß 漢字 👩‍💻 "
rate = {words_per_s}
repeat = 40
"""
CALLING = """
description = "One call, and an answer once it has its output."
[[turns]]
[[turns.steps]]
text = "One thing first."
[[turns.steps]]
call = {call}
[[turns]]
[[turns.steps]]
text = "Thank you, that is all I needed."
"""
CALLS = {
    "asking": '{ name = "ask_person", arguments = { question = "Which colour shall it be?", '
    'choices = ["Red", "Green", "Something in between that needs a few words"] } }',
    "reading": '{ name = "read_selection", arguments = { reason = "To explain it." } }',
    "ordering": '{ name = "order", arguments = { number = 7 } }',
}
ORDER_TOOL = {"name": "order", "kind": "python", "entry": "tests.tools.sample_tools:order", "always": True}

WORDS_PER_S = {"page": 80, "patient": 25}
"""160 words: two and six seconds."""


def _write_scripts(data_dir: Path) -> None:
    scripts = data_dir / "scripts"
    scripts.mkdir()
    for name, call in CALLS.items():
        (scripts / f"{name}.toml").write_text(CALLING.format(call=call), encoding="utf-8")
    for name, words_per_s in WORDS_PER_S.items():
        (scripts / f"{name}.toml").write_text(SCRIPT.format(words_per_s=words_per_s), encoding="utf-8")


async def _play(scenarios: Sequence[str], data_dir: Path, **settings: Any) -> None:
    chromium()
    _write_scripts(data_dir)
    async with running_server(data_dir, **settings) as server:
        await run_scenarios("chat.mjs", server.url, scenarios)


GOOD_DAYS = [
    "text_grows_while_it_is_written",
    "demo_calls_the_clock_of_the_page",
    "a_conversation_goes_on_over_several_questions",
    "conversations_are_listed_named_opened_and_removed",
    "keys_send_break_lines_and_keep_a_draft",
    "what_a_model_writes_stays_text",
    "markup_and_scripts_from_anywhere_stay_text",
    "somebody_who_reads_further_up_is_left_there",
    "an_empty_page_is_read_from_its_top",
    "it_fits_a_small_phone_and_every_control_has_a_name",
    "every_state_of_the_page_is_accessible_in_both_themes",
    "thoughts_are_folded_away_and_can_be_read",
]
INTERRUPTED = [
    "a_reload_in_mid_answer_shows_the_whole_answer_once",
    "reloads_at_any_moment_neither_lose_nor_double_anything",
    "a_dropped_network_in_mid_answer_is_continued",
    "an_offline_device_says_so_and_goes_on_when_it_is_back",
    "a_dead_path_without_a_close_is_noticed_on_waking_up",
    "a_question_asked_without_a_network_is_answered_once_later",
    "stop_ends_the_answer_and_the_conversation_goes_on",
    "stop_works_after_a_reload",
]
TOGETHER = [
    "a_second_tab_sees_the_same_conversation_live",
    "a_call_is_answered_once_although_two_tabs_watch",
    "a_call_of_a_closed_tab_is_answered_by_the_one_that_is_left",
    "a_second_device_comes_in_mid_answer_with_the_whole_history",
    "what_is_said_into_a_running_answer_is_followed_by_both",
    "a_selected_text_is_read_only_after_a_yes",
]
QUESTIONS = [
    "the_demo_asks_and_goes_on_with_the_choice_of_the_person",
    "a_question_is_answered_with_the_keyboard_alone",
    "parts_of_the_client_that_cannot_be_loaded_at_first_are_loaded_later",
    "a_draft_that_is_being_written_keeps_the_focus",
    "a_program_without_hello_answers_and_both_tabs_see_it",
    "the_other_tab_answers_after_a_reload_in_mid_wait",
    "of_two_answers_the_first_counts_and_the_other_is_told_quietly",
    "an_answer_given_without_a_network_arrives_when_it_is_back",
    "stop_ends_a_question_and_the_conversation_goes_on",
    "a_waiting_question_fits_a_phone_and_names_every_control",
]
TWICE = [
    "of_two_answers_in_one_moment_the_first_counts_and_no_other_can_be_given",
    "an_answer_whose_receipt_was_lost_counts_once",
    "a_copy_of_the_tab_that_answers_later_is_told",
]
TROUBLE = [
    "an_unknown_model_is_refused_with_the_sentence_of_the_server",
    "a_failed_answer_keeps_its_text_and_offers_a_retry",
    "a_lost_history_is_continued_in_a_new_conversation",
    "a_conversation_that_the_server_has_no_more_is_said_to_be_gone",
    "a_page_that_is_older_or_newer_than_its_server_is_told_to_reload",
    "what_a_newer_page_or_server_says_beside_the_known_is_passed_over",
]


@pytest.mark.parametrize(
    "scenarios",
    [GOOD_DAYS, INTERRUPTED, TOGETHER, QUESTIONS, TWICE, TROUBLE],
    ids=["good days", "interrupted", "together", "questions", "twice", "trouble"],
)
async def test_in_the_browser(scenarios: list[str], tmp_path: Path) -> None:
    await _play(scenarios, tmp_path)


async def test_a_server_that_wants_a_key(tmp_path: Path) -> None:
    keys = [key_of("secret", name="ci"), key_of("stranger", name="stranger", tenant="other")]
    people = [key_of("anna", name="<b>anna</b>"), key_of("bob", name="bob")]
    scenarios = [
        "a_server_that_wants_a_key_is_explained",
        "a_key_is_asked_for_and_kept_for_the_tab_only",
        "a_link_brings_a_signed_in_person_into_the_running_conversation",
        "two_who_write_at_once_see_both_branches_and_go_on_in_the_one_they_choose",
    ]
    await _play(scenarios, tmp_path, auth="required", key=[*keys, *people], tenant=[{"id": "other"}])


async def test_a_call_that_needs_approval_is_allowed_by_a_person(tmp_path: Path) -> None:
    tool = {**ORDER_TOOL, "require_approval": "always"}
    await _play(["a_call_that_needs_approval_is_allowed_by_a_person"], tmp_path, tool=[tool])


async def test_across_a_kill_of_the_server(tmp_path: Path) -> None:
    chromium()
    _write_scripts(tmp_path)
    scenarios = [
        "a_killed_server_is_told_truthfully_and_can_be_asked_again",
        "a_question_waits_across_a_restart_of_the_server",
    ]
    async with ServerProcess(tmp_path) as server:

        async def restart() -> str:
            await server.kill()
            await server.start()
            return server.url

        await run_scenarios("chat.mjs", server.url, scenarios, restart)
