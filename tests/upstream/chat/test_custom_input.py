"""The input of a custom tool comes out of its function's arguments as it grows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.upstream.chat.custom_input import CustomInput


def read(*pieces: str) -> list[str]:
    """What each piece adds, and the end."""
    reader = CustomInput()
    return [*(reader.add(piece) for piece in pieces), reader.finish()]


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]


@given(st.text(), st.lists(st.integers(0, 500), max_size=6), st.booleans())
def test_any_text_in_any_pieces_comes_out_as_it_was(text: str, places: list[int], ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    found = "".join(read(*cut(arguments, places)))
    assert found.encode("utf-16", "surrogatepass").decode("utf-16") == text


@given(st.text(alphabet='"\\u0a{}:input', max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_broken_arguments_give_the_same_in_any_pieces(arguments: str, places: list[int]) -> None:
    assert "".join(read(*cut(arguments, places))) == "".join(read(arguments))


def test_the_text_comes_as_soon_as_it_is_clear() -> None:
    assert read('{"input": "ab', "c\\", "n", "d\\u00", 'e9"', "}") == ["ab", "c", "\n", "d", "é", "", ""]


def test_spaces_and_line_breaks_around_the_text_do_not_matter() -> None:
    assert read('\n{ "input"\t:\n"a', '" }\n') == ["a", "", ""]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (r'{"input": "\d+ \ud"}', r"\d+ \ud"),
        ('{"input": "a\nb"}', "a\nb"),
        ('{"input": "half', "half"),
        ('{"note": 1, "input": "x"}', "x"),
        ('{"code": "x"}', "x"),
        ('"x"', "x"),
        ("plain text", "plain text"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"a": "x", "b": "y"}', '{"a": "x", "b": "y"}'),
        ("[1]", "[1]"),
        ("", ""),
        ("{}", "{}"),
        (" " * 1000 + '{"input": "far"}', "far"),
    ],
)
def test_arguments_of_another_shape_give_what_can_be_found_in_them(arguments: str, found: str) -> None:
    assert "".join(read(arguments)) == found
    assert "".join(read(*arguments)) == found
