"""The JSON Schema files are what the models say, and are good JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from antiphon_protocol.schema import FOLDER, UNIONS, drift, generate, main, write
from tests.support.protocol_text import CLIENT_TYPES, frames
from tests.support.schemas import validate_own_schema


def test_the_files_have_no_drift() -> None:
    assert drift() == [], "run python -m antiphon_protocol.schema"


def test_generating_twice_gives_the_same_text() -> None:
    assert generate() == generate()


def test_drift_names_files_that_are_changed_missing_or_too_many(tmp_path: Path) -> None:
    write(tmp_path)
    assert drift(tmp_path) == []
    (tmp_path / "client_events.json").write_text("{}")
    (tmp_path / "server_events.json").unlink()
    (tmp_path / "stray.json").write_text("{}")
    assert drift(tmp_path) == ["client_events.json", "server_events.json", "stray.json"]


def test_writing_mends_drift(tmp_path: Path) -> None:
    (tmp_path / "stray.json").write_text("{}")
    write(tmp_path)
    assert drift(tmp_path) == []


def test_check_exits_with_zero_when_all_is_in_step() -> None:
    assert main(["--check"]) == 0


def test_check_exits_with_one_and_names_the_file_on_drift(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("antiphon_protocol.schema.drift", lambda: ["extension.json"])
    assert main(["--check"]) == 1
    assert "extension.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", UNIONS)
def test_a_file_is_valid_json_schema(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((FOLDER / name).read_text(encoding="utf-8")))


def test_a_whole_file_judges_a_frame_as_its_own_definition_does() -> None:
    whole = {
        name: Draft202012Validator(json.loads((FOLDER / name).read_text(encoding="utf-8"))) for name in UNIONS
    }
    for frame in frames():
        if frame["type"].startswith("antiphon:"):
            whole["extension.json"].validate(frame)
        elif frame["type"] in CLIENT_TYPES:
            whole["client_events.json"].validate(frame)
        else:
            whole["server_events.json"].validate(frame)


@pytest.mark.parametrize("frame", [{}, {"type": 3}, {"type": "response.dreamt"}])
def test_a_frame_without_a_known_type_fits_no_schema(frame: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        validate_own_schema(frame)
