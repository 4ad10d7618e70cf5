"""No secret in a log line, whatever its place: under a name, inside text, nested, in an exception (A-09)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import jwt
import pytest
import structlog

from antiphon.cli.log_secrets import MASK, mask_secrets, mask_text
from antiphon.cli.logs import configure_logs

SECRET = "Zx81secret"
JWT = jwt.encode({"sub": "anna"}, "k" * 32, algorithm="HS256")

NAMES = [
    "authorization", "Authorization", "x-upstream-authorization", "ticket", "token", "access_token", "accessToken",
    "key", "api_key", "apiKey", "API-Key", "seal_key", "password", "passwd", "client_secret", "cookie",
    "set-cookie",
]  # fmt: skip

TEXTS = [
    f"Authorization: Bearer {SECRET}",
    f"authorization: basic {SECRET}=",
    f"GET /v1/responses?ticket={SECRET} HTTP/1.1",
    f"GET /v1/responses?a=b&access_token={SECRET}&c=d",
    f"could not connect to redis://:{SECRET}@cache.example:6379/0",
    f"postgresql://anna:{SECRET}@db.example/antiphon",
    f'connection failed: "host=db.example password={SECRET}"',
    f"sent {{'authorization': '{SECRET}', 'a': 1}}",
    f'{{"api_key": "{SECRET}"}}',
    f"the key ak_{SECRET} is not known",
    f"the key sk-{SECRET} is not known",
    f"token {JWT} is expired",
]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn.error")
    before = root.handlers[:], root.level, uvicorn.filters[:], uvicorn.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level, uvicorn.filters[:], uvicorn.level = before


@pytest.mark.parametrize("name", NAMES)
def test_what_has_the_name_of_a_secret_is_masked_at_every_depth(name: str) -> None:
    line = {name: SECRET, "inside": [{"deep": {name: SECRET}}], "many": {name: [SECRET]}, "raw": {name: b"x"}}
    masked = mask_secrets(None, "info", line)
    assert SECRET not in str(masked)
    assert masked == {
        name: MASK, "inside": [{"deep": {name: MASK}}], "many": {name: MASK}, "raw": {name: MASK},
    }  # fmt: skip
    assert line[name] == SECRET, "the caller's own value is not changed"


@pytest.mark.parametrize("text", TEXTS)
def test_what_has_the_shape_of_a_secret_is_masked_and_what_is_around_it_stays(text: str) -> None:
    for line in ({"event": text}, {"event": "x", "error": text}, {"event": "x", "many": [text.encode()]}):
        shown = str(mask_secrets(None, "info", line))
        assert SECRET not in shown and JWT not in shown and MASK in shown
    assert mask_text(text).split(MASK)[0] == text[: len(mask_text(text).split(MASK)[0])]


def test_numbers_identities_and_plain_words_stay() -> None:
    line = {
        "event": "run_ended", "tokens": 12, "input_tokens": 4, "token": 7, "principal": "key:ci", "tenant": "acme",
        "response_id": "resp_019da2c47b1e7c3a9f00112233445566", "path": "/v1/responses", "keyed": "yes",
        "ok": True, "none": None, "model": "gpt-5", "error": "basic auth is not spoken; task_12345678",
    }  # fmt: skip
    assert mask_secrets(None, "info", line) == line


def test_what_is_nested_without_end_is_masked_whole() -> None:
    line: dict[str, object] = {"event": "x"}
    line["self"] = line
    assert MASK in str(mask_secrets(None, "info", line))


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_lines_of_ours_and_of_libraries_and_their_exceptions_are_masked(
    log_format: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logs("info", log_format)
    ours, library = structlog.get_logger("ours"), logging.getLogger("some.library")
    try:
        raise ValueError(f"cannot use redis://:{SECRET}@cache.example/0")
    except ValueError as error:
        ours.error("ours_failed", exc_info=error, ticket=SECRET)
        library.exception("failed with Bearer %s", SECRET)
    library.warning("sent %s", {"authorization": SECRET})
    sys.stderr.flush()
    written = capfdbinary.readouterr().err.decode()
    assert SECRET not in written
    assert written.count("ValueError") >= 2 and written.count(MASK) >= 3
    if log_format == "json":
        assert [json.loads(line)["event"].split()[0] for line in written.splitlines()] == [
            "ours_failed", "failed", "sent",
        ]  # fmt: skip


def test_what_clients_do_wrong_fills_no_log(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    logger = logging.getLogger("uvicorn.error")
    logger.warning("Invalid HTTP request received.")
    logger.error("Invalid UTF-8 sequence received from client.")
    logger.error("something else")
    assert [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()] == ["something else"]
