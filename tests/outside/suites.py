"""The suites, in the order of the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.outside.aimock import aimock
from tests.outside.comply import comply
from tests.outside.load import load
from tests.outside.openapi import open_responses, our_document
from tests.outside.outcome import Outcome
from tests.outside.pages import html_validate, lighthouse
from tests.outside.programs_of_ours import BROWSER, CODEX, EVENTS, REAL_MODEL, SDKS
from tests.outside.rfc6455 import rfc6455

Suite = Callable[[], Awaitable[Outcome]]

SUITES: dict[str, Suite] = {
    "rfc6455": rfc6455,
    "comply": comply,
    "openapi": our_document,
    "open-responses": open_responses,
    "aimock": aimock,
    "html-validate": html_validate,
    "lighthouse": lighthouse,
    "load": load,
    "events": EVENTS,
    "clients": SDKS,
    "codex": CODEX,
    "model": REAL_MODEL,
    "browser": BROWSER,
}
