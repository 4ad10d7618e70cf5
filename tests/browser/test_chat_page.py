"""The chat page in a real Chromium against a real server: one scenario of `chat.mjs` for each test."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
NODE_CLIENTS = HERE.parent / "clients" / "node"
Restart = Callable[[], Awaitable[str]]
"""Kills the server, starts it again, gives its new address."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCENARIO_S = 120.0
"""A scenario waits at most 30 s for each thing; nearly all end within 5 s on an idle machine."""

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
    "ordering": '{ name = "order", arguments = { number = 7 } }',
}
ORDER_TOOL = {"name": "order", "kind": "python", "entry": "tests.tools.sample_tools:order", "always": True}

WORDS_PER_S = {"page": 80, "patient": 25}
"""160 words: two and six seconds."""


def _absent(reason: str) -> NoReturn:
    """Skipped at home, a failure where CI promised a browser."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _chromium() -> str:
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found or not Path(found).exists():
        _absent("browser tests: no Chromium found")
    return found


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        _absent("browser tests: no Node found")
    if not (HERE / "node_modules" / "playwright-core").is_dir():
        _absent("browser tests: playwright-core is missing, run `npm ci --prefix tests/browser`")
    if not (NODE_CLIENTS / "node_modules" / "ws").is_dir():
        _absent("browser tests: ws is missing, run `npm ci --prefix tests/clients/node`")
    return node


def _write_scripts(data_dir: Path) -> None:
    scripts = data_dir / "scripts"
    scripts.mkdir()
    for name, call in CALLS.items():
        (scripts / f"{name}.toml").write_text(CALLING.format(call=call), encoding="utf-8")
    for name, words_per_s in WORDS_PER_S.items():
        (scripts / f"{name}.toml").write_text(SCRIPT.format(words_per_s=words_per_s), encoding="utf-8")


async def _run(scenario: str, url: str, restart: Restart | None = None) -> None:
    """Play a scenario; `restart` is called when it asks for it."""
    command = [_node(), str(HERE / "chat.mjs"), scenario, url]
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "CHROMIUM": _chromium()},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output = await asyncio.wait_for(_listen(process, restart), SCENARIO_S)
    except TimeoutError:
        # Asked to end, Playwright takes its browser along.
        process.terminate()
        await process.wait()
        pytest.fail(f"{scenario} did not end within {SCENARIO_S} s")
    assert process.returncode == 0, output


async def _listen(process: asyncio.subprocess.Process, restart: Restart | None) -> str:
    assert process.stdin is not None and process.stdout is not None
    said = []
    while line := (await process.stdout.readline()).decode():
        if line == "restart\n" and restart is not None:
            process.stdin.write(f"{await restart()}\n".encode())
            await process.stdin.drain()
        else:
            said.append(line)
    await process.wait()
    return "".join(said)


async def _play(scenario: str, data_dir: Path, **settings: Any) -> None:
    _chromium()
    _write_scripts(data_dir)
    async with running_server(data_dir, **settings) as server:
        await _run(scenario, server.url)


SCENARIOS = [
    "text_grows_while_it_is_written",
    "demo_calls_the_clock_of_the_page",
    "a_conversation_goes_on_over_several_questions",
    "conversations_are_listed_opened_and_deleted",
    "keys_send_break_lines_and_keep_a_draft",
    "what_a_model_writes_stays_text",
    "somebody_who_reads_further_up_is_left_there",
    "an_empty_page_is_read_from_its_top",
    "it_fits_a_small_phone_and_every_control_has_a_name",
    "text_has_enough_contrast_in_both_schemes",
    "a_reload_in_mid_answer_shows_the_whole_answer_once",
    "reloads_at_any_moment_neither_lose_nor_double_anything",
    "a_dropped_network_in_mid_answer_is_continued",
    "an_offline_device_says_so_and_goes_on_when_it_is_back",
    "a_dead_path_without_a_close_is_noticed_on_waking_up",
    "a_question_asked_without_a_network_is_answered_once_later",
    "stop_ends_the_answer_and_the_conversation_goes_on",
    "stop_works_after_a_reload",
    "a_second_tab_sees_the_same_conversation_live",
    "a_call_is_answered_once_although_two_tabs_watch",
    "a_call_of_a_closed_tab_is_answered_by_the_one_that_is_left",
    "the_demo_asks_and_goes_on_with_the_choice_of_the_person",
    "a_question_is_answered_with_the_keyboard_alone",
    "a_draft_that_is_being_written_keeps_the_focus",
    "a_program_without_hello_answers_and_both_tabs_see_it",
    "the_other_tab_answers_after_a_reload_in_mid_wait",
    "of_two_answers_the_first_counts_and_the_other_is_told_quietly",
    "an_answer_given_without_a_network_arrives_when_it_is_back",
    "stop_ends_a_question_and_the_conversation_goes_on",
    "a_waiting_question_fits_a_phone_and_names_every_control",
    "an_unknown_model_is_refused_with_the_sentence_of_the_server",
    "a_failed_answer_keeps_its_text_and_offers_a_retry",
    "a_lost_history_is_continued_in_a_new_conversation",
    "an_answer_that_the_server_lost_is_said_to_be_gone",
    "thoughts_are_folded_away_and_can_be_read",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_in_the_browser(scenario: str, tmp_path: Path) -> None:
    await _play(scenario, tmp_path)


@pytest.mark.parametrize(
    "scenario", ["a_server_that_wants_a_key_is_explained", "a_key_is_asked_for_and_kept_for_the_tab_only"]
)
async def test_a_server_that_wants_a_key(scenario: str, tmp_path: Path) -> None:
    key = {"sha256": hashlib.sha256(b"secret").hexdigest(), "name": "ci"}
    await _play(scenario, tmp_path, auth="required", key=[key])


async def test_a_call_that_needs_approval_is_allowed_by_a_person(tmp_path: Path) -> None:
    tool = {**ORDER_TOOL, "require_approval": "always"}
    await _play("a_call_that_needs_approval_is_allowed_by_a_person", tmp_path, tool=[tool])


RESTARTED = [
    "a_killed_server_is_told_truthfully_and_can_be_asked_again",
    "a_question_waits_across_a_restart_of_the_server",
]


@pytest.mark.parametrize("scenario", RESTARTED)
async def test_across_a_kill_of_the_server(scenario: str, tmp_path: Path) -> None:
    _chromium()
    _write_scripts(tmp_path)
    async with ServerProcess(tmp_path) as server:

        async def restart() -> str:
            await server.kill()
            await server.start()
            return server.url

        await _run(scenario, server.url, restart)
