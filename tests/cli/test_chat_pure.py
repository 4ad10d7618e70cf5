"""The small decisions of the terminal client: addresses, waits, closes, harmless text, answers to questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.client.backoff import Backoff
from antiphon.cli.client.closing import is_final, refused_upgrade
from antiphon.cli.client.endpoint import Endpoint
from antiphon.cli.client.printable import one_line, printable
from antiphon.cli.client.questions import Question, Unanswerable
from antiphon.cli.client.run_cursor import RunCursor
from antiphon.errors import ClientError


@pytest.mark.parametrize(
    ("given_url", "origin", "socket"),
    [
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787", "ws://127.0.0.1:8787/v1/responses"),
        ("127.0.0.1:8787", "http://127.0.0.1:8787", "ws://127.0.0.1:8787/v1/responses"),
        ("https://ai.example.com/v1/", "https://ai.example.com", "wss://ai.example.com/v1/responses"),
        ("wss://ai.example.com/v1/responses", "https://ai.example.com", "wss://ai.example.com/v1/responses"),
        (
            "https://example.com/antiphon/v1",
            "https://example.com/antiphon",
            "wss://example.com/antiphon/v1/responses",
        ),
    ],
)
def test_an_origin_and_a_base_url_name_the_same_server(given_url: str, origin: str, socket: str) -> None:
    endpoint = Endpoint.read(given_url)
    assert (endpoint.origin, endpoint.socket) == (origin, socket)


@pytest.mark.parametrize(
    "given_url", ["", "ftp://example.com", "http://", "http://me:secret@example.com", "http://x:y"]
)
def test_what_names_no_server_is_refused_without_an_attempt(given_url: str) -> None:
    with pytest.raises(ClientError):
        Endpoint.read(given_url)


def test_a_key_over_plain_http_is_remarked_on_unless_it_stays_on_this_machine() -> None:
    shown = ["http://example.com", "http://10.0.0.1:8787"]
    safe = ["http://localhost:1", "http://127.0.0.9", "http://[::1]:8787", "https://example.com"]
    assert [Endpoint.read(url).would_show_keys for url in shown + safe] == [True, True, False, False, False, False]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0, 100))
def test_waits_are_spread_up_to_a_bound_and_never_shorter_than_asked(chances: list[float], asked_s: float) -> None:
    backoff = Backoff(first_s=0.5, most_s=10)
    waits = [backoff.wait_s(chance, asked_s) for chance in chances]
    assert all(asked_s <= wait <= asked_s + 10 for wait in waits) and waits[0] <= asked_s + 0.5
    backoff.opened()
    assert backoff.wait_s(1.0) == 0.5


def test_closes_of_the_protocol_say_whether_coming_back_is_right() -> None:
    assert [code for code in (None, 1006, 1011, 1012, 1013, 4000, 4002, 4029, 4499) if is_final(code)] == []
    assert all(map(is_final, (1002, 1008, 1009, 4500, 4502, 4505, 4999)))


def test_a_refused_upgrade_keeps_the_words_of_the_server_and_says_whether_to_try_again() -> None:
    error, again = refused_upgrade(401, b'{"error": {"code": "invalid_api_key", "message": "Unknown key."}}')
    assert error.code == "invalid_api_key" and error.message.startswith("Unknown key.") and not again
    assert refused_upgrade(503, b'{"error": {"code": "server_draining", "message": "x"}}')[1]
    error, again = refused_upgrade(404, b"<html>nginx")
    assert "no Antiphon server" in error.message and not again


@given(st.text())
def test_no_text_from_outside_moves_the_cursor_colours_or_retitles(text: str) -> None:
    shown = printable(f"\x1b]0;title\x07\x1b[2J{text}\u202eevil\r")
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"]
    assert "\n" not in one_line(text) and len(one_line(text)) <= 200


def test_text_of_people_stays_as_it_is() -> None:
    for text in ("naïve 日本語 مرحبا", "👩‍👩‍👧 family", "a\tb\nc"):
        assert printable(text) == text


def question(name: str, kind: str = "function", arguments: str = "{}") -> Question:
    return Question("resp_1", "call_1", name, kind, arguments)


def test_a_person_is_asked_in_words_and_may_choose_by_number() -> None:
    asked = question("ask_person", arguments='{"question":"Where?","choices":["Lake","Roof\\u001b[2J"]}')
    assert asked.lines == ["Where?", "  1  Lake", "  2  Roof\ufffd[2J"]
    assert [asked.answer(line)["output"] for line in ("1", "Elsewhere", "3")] == ["Lake", "Elsewhere", "3"]


def test_an_approval_takes_yes_or_no_and_nothing_else() -> None:
    asked = question("shell.run", "approval", '{"cmd":"ls"}')
    assert asked.lines == ['May it call shell.run({"cmd":"ls"})?']
    answer = {"type": "mcp_approval_response", "approval_request_id": "call_1"}
    assert [asked.answer(line) for line in ("y", " No ")] == [
        answer | {"approve": True},
        answer | {"approve": False},
    ]
    for line in ("", "maybe"):
        with pytest.raises(Unanswerable):
            asked.answer(line)


def test_any_other_tool_takes_text_or_json_and_json_must_be_whole() -> None:
    asked = question("get_weather", arguments='{"city":"Oslo"}')
    assert asked.answer('{"t": 4}') == {"type": "function_call_output", "call_id": "call_1", "output": '{"t": 4}'}
    assert question("x", "custom").answer("4 degrees")["type"] == "custom_tool_call_output"
    with pytest.raises(Unanswerable):
        asked.answer('{"t": ')


def test_arguments_that_are_no_object_are_shown_as_they_came() -> None:
    assert question("ask_person", arguments="[1").lines == ["It calls ask_person([1) and waits for what you say."]


@given(st.lists(st.integers(0, 30)))
def test_a_cursor_takes_each_number_once_in_order_whatever_comes(numbers: list[int]) -> None:
    cursor = RunCursor("resp_1")
    event = {"type": "response.output_text.delta"}
    taken = [n for n in numbers if cursor.take({**event, "sequence_number": n}) == "new"]
    assert taken == list(range(len(taken)))
    assert cursor.position()["after"] == (taken[-1] if taken else "start")
