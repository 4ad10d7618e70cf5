"""Instructions of several sides, joined."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.instructions import put_before

ITEM = {"type": "message", "role": "developer", "content": "theirs"}


@pytest.mark.parametrize(
    ("text", "given", "joined"),
    [
        ("ours", "theirs", "ours\n\ntheirs"),
        ("ours", None, "ours"),
        ("ours", "", "ours"),
        (None, "theirs", "theirs"),
        ("", None, None),
        ("ours", [ITEM], [{**ITEM, "content": "ours"}, ITEM]),
    ],
)
def test_a_text_stands_before_instructions_with_a_blank_line_between(
    text: str | None, given: Any, joined: Any
) -> None:
    assert put_before(text, given) == joined
