"""JSON from clients: exact or refused, bounded, never fatal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.json_input import mend_text, parse_object
from antiphon.errors import RequestError

CAP = 128


def parse(text: str | bytes) -> dict[str, Any]:
    return parse_object(text, CAP)


def refused(text: str | bytes) -> RequestError:
    with pytest.raises(RequestError) as error:
        parse(text)
    assert (error.value.code, error.value.status) == ("invalid_json", 400)
    assert len(error.value.message) < 400
    return error.value


def nested(depth: int, kind: str) -> str:
    """An object of `depth` levels."""
    if kind == "arrays":
        return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("depth", [2, 50, CAP])
def test_nesting_up_to_the_limit_is_read(depth: int, kind: str) -> None:
    assert parse(nested(depth, kind)) == json.loads(nested(depth, kind))


@pytest.mark.parametrize("kind", ["arrays", "objects"])
@pytest.mark.parametrize("depth", [CAP + 1, 200, 10_000, 1_000_000])
@pytest.mark.parametrize("surrogate", ["", '"s":"\\ud800",'])
def test_nesting_over_the_limit_is_refused_whichever_parser_reads_it(
    depth: int, kind: str, surrogate: str
) -> None:
    refused(nested(depth, kind).replace("{", "{" + surrogate, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[]",
        "null",
        "true",
        "5",
        '"x"',
        "{",
        "}",
        '{"a":}',
        '{"a":1,}',
        "{'a':1}",
        '{"a":1}{"b":2}',
        '{"a":01}',
        "{a:1}",
        '{"a":\x01}',
        "\ufeff{}",
        '{"a":"\n"}',
        '{"a":.5}',
        '{"a":+1}',
        "[" * 1_000_000,
    ],
)
def test_what_is_not_one_json_object_is_refused(text: str) -> None:
    refused(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
@pytest.mark.parametrize("surrogate", ["", '"s":"\\ud800",'])
def test_numbers_that_json_does_not_have_or_nobody_can_hold_are_refused(number: str, surrogate: str) -> None:
    refused(f'{{{surrogate}"a":[{number}]}}')


@pytest.mark.parametrize("number", [-(2**63), 2**53 + 1, 2**63, 2**64 - 1, 0])
def test_integers_of_64_bits_are_kept_exactly(number: int) -> None:
    assert parse(f'{{"a":{number}}}') == {"a": number}
    assert parse(f'{{"s":"\\ud800","a":{number}}}')["a"] == number


@pytest.mark.parametrize("number", [str(-(2**63) - 1), str(2**64), "1" * 100, "-" + "1" * 5_000, "1" * 100_000])
@pytest.mark.parametrize("surrogate", ["", '"s":"\\ud800",'])
def test_larger_integers_are_refused_not_rounded(number: str, surrogate: str) -> None:
    refused(f'{{{surrogate}"a":{{"b":[{number}]}}}}')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"\\ud800"}', {"a": "\ufffd"}),
        ('{"a":"x\\udc00y"}', {"a": "x\ufffdy"}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a":"\\ud83d\\ude00\\ud83d"}', {"a": "\U0001f600\ufffd"}),
        ('{"a":"\\ude00\\ud83d"}', {"a": "\ufffd\ufffd"}),
        ('{"\\ud800":1}', {"\ufffd": 1}),
        ('{"a":[{"\\udfff":["\\ud800",{"b":"\\ud800"}]}]}', {"a": [{"\ufffd": ["\ufffd", {"b": "\ufffd"}]}]}),
        ('{"\\ud800":1,"\\ud801":2}', {"\ufffd": 2}),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character_wherever_it_stands(text: str, value: Any) -> None:
    assert parse(text) == value
    assert parse(text.encode()) == value


@pytest.mark.parametrize("rest", ["\\u12", "\\ud800\\u", "\\ux", "\\"])
def test_a_broken_escape_is_refused(rest: str) -> None:
    refused('{"a":"' + rest + '"}')


def test_nul_and_control_characters_that_are_escaped_are_kept() -> None:
    text = "".join(map(chr, [0, 1, 31, 127, 0x202E, 0x2028]))
    assert parse(json.dumps({"a": text, text: 1})) == {"a": text, text: 1}


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"\xc3":1}',
        b'{"a":"\\ud800","b":"\xff"}',
        b'{"a":"\xf0\x9f\x98"}',
    ],
)
def test_bytes_that_are_not_utf_8_are_refused(raw: bytes) -> None:
    refused(raw)


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert parse('{"a":1,"a":2}') == {"a": 2}
    assert parse('{"a":1,"a":"\\ud800"}') == {"a": "\ufffd"}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.booleans())
def test_every_object_is_read_as_it_was_written(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse(text) == value
    assert parse(text.encode()) == value
    assert parse('{"\\ud800":0,' + text[1:] if value else text) == ({"\ufffd": 0, **value} if value else value)


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0d8ef1.-+ ', max_size=40).map(str.encode))
def test_any_bytes_are_an_object_or_refused(raw: bytes) -> None:
    try:
        assert isinstance(parse(raw), dict)
    except RequestError as error:
        assert error.code == "invalid_json"


@given(st.text(st.characters(codec=None), max_size=12))
def test_mended_text_has_no_surrogate_and_keeps_every_character(text: str) -> None:
    mended = mend_text(text)
    mended.encode()
    assert mend_text(mended) == mended
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert mended == text


MANY = 1_000_000
BOMBS = {
    "empty lists": '{"a":[' + "[]," * MANY + "1]}",
    "empty objects": '{"a":[' + "{}," * MANY + "1]}",
    "numbers": '{"a":[' + "1," * (MANY + 9) + "1]}",
    "strings": '{"a":[' + '"",' * (MANY + 9) + "1]}",
    "keys": "{" + ",".join(f'"{n:x}":1' for n in range(MANY + 9)) + "}",
    "one key again and again": "{" + '"a":1,' * (MANY + 9) + '"a":1}',
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_more_values_than_a_million_are_refused_before_they_are_built(bomb: str) -> None:
    for data in (bomb, bomb.encode()):
        with pytest.raises(RequestError) as refusal:
            parse_object(data, 128)
        assert refusal.value.code == "invalid_json"
        assert refusal.value.message == "The JSON has more than 1000000 values."


@pytest.mark.parametrize(
    "inside", ["1,", "[{", '\\",', "\\\\,", "\\\\[", "😀,", '\\"[', "\n,".replace("\n", "\\n")]
)
def test_a_text_may_hold_what_it_likes_and_is_one_value(inside: str) -> None:
    text = '{"a": "' + inside * MANY + '", "b": [' + "1," * 900_000 + "1]}"
    for data in (text, text.encode()):
        assert len(parse_object(data, 128)["b"]) == 900_001
