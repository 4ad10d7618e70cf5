"""The key that seals compactions, and what it seals."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.compaction import is_own_compaction
from antiphon.errors import RequestError, StartupError
from antiphon.runs.compaction.sealing import Sealer

ITEMS = [{"role": "user", "content": "SECRET é 🚀", "n": 2**64 - 1, "x": 1.0}]


def sealer(key: str = "k" * 32) -> Sealer:
    made = Sealer(key, Path("/nowhere"))
    made.load()
    return made


BLOB = sealer().seal(ITEMS, "t")


def refusal(one: Sealer, blob: str, tenant: str = "t") -> RequestError:
    with pytest.raises(RequestError) as refused:
        one.open(blob, tenant, "input[3]")
    assert (refused.value.code, refused.value.status, refused.value.param) == (
        "invalid_compaction",
        400,
        "input[3]",
    )
    return refused.value


def test_what_is_sealed_is_read_back_exactly_and_shows_nothing() -> None:
    blob = sealer().seal(ITEMS, "t")
    assert sealer().open(blob, "t", "") == ITEMS
    assert is_own_compaction({"type": "compaction", "encrypted_content": blob})
    assert b"SECRET" not in base64.urlsafe_b64decode(blob.partition(".")[2])
    assert sealer().seal(ITEMS, "t") != blob, "each seal is another"


def test_a_seal_holds_for_its_key_and_its_tenant() -> None:
    blob = sealer().seal(ITEMS, "t")
    refusal(sealer("l" * 32), blob)
    refusal(sealer(), blob, "other")


@given(st.data())
@settings(max_examples=200)
def test_a_changed_blob_is_refused(data: st.DataObject) -> None:
    blob = BLOB
    place = data.draw(st.integers(0, len(blob) - 1))
    other = data.draw(st.characters(exclude_characters=blob[place]) | st.just(""))
    changed = blob[:place] + other + blob[place + 1 :]
    try:
        assert sealer().open(changed, "t", "input[3]") == ITEMS, "the last bits of base64 mean nothing"
    except RequestError as error:
        assert error.code == "invalid_compaction"


def test_the_first_start_makes_a_key_that_only_its_owner_reads_and_later_starts_use_it(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    first = Sealer(None, path)
    first.load()
    assert path.stat().st_mode & 0o777 == 0o600
    again = Sealer(None, path)
    again.load()
    assert again.open(first.seal(ITEMS, "t"), "t", "") == ITEMS


def test_a_key_that_cannot_be_used_stops_the_start_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="seal_key"):
        sealer("short")
    path = tmp_path / "seal.key"
    path.write_text("")
    with pytest.raises(StartupError, match=r"seal\.key"):
        Sealer(None, path).load()
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(StartupError, match=r"seal\.key"):
        Sealer(None, path).load()
    with pytest.raises(StartupError, match=r"seal\.key"):
        Sealer(None, tmp_path / "missing" / "seal.key").load()
