"""PROTOCOL.md says what the models and the code table say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel

from antiphon_protocol import bodies, feed, lifecycle, response, runstate, status
from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from antiphon_protocol.events import SERVER_EVENT_TYPES
from antiphon_protocol.extension import COMMAND_TYPES, EXTENSION_EVENT_TYPES
from antiphon_protocol.requests import REQUEST_TYPES, CreateRequest
from antiphon_protocol.tables import fill
from tests.support.protocol_text import CLIENT_TYPES, Example, examples, frames, protocol_text
from tests.support.schemas import validate_own, validate_own_client, validate_own_schema

NAMED_MODELS: dict[str, type[BaseModel]] = {
    "Caller": bodies.Caller,
    "CallToClaim": bodies.CallToClaim,
    "ClaimToKeep": bodies.ClaimToKeep,
    "Claimed": bodies.Claimed,
    "CompactedResponse": bodies.CompactedResponse,
    "Conversation": bodies.Conversation,
    "ConversationCreate": bodies.ConversationCreate,
    "ConversationDeleted": bodies.ConversationDeleted,
    "ConversationItemList": bodies.ConversationItemList,
    "ConversationItemsCreate": bodies.ConversationItemsCreate,
    "CreateRequest": CreateRequest,
    "ErrorResponse": bodies.ErrorResponse,
    "Health": bodies.Health,
    "Inject": bodies.Inject,
    "Injected": bodies.Injected,
    "InputItemList": bodies.InputItemList,
    "InputTokens": bodies.InputTokens,
    "LifecycleEntry": lifecycle.LifecycleEntry,
    "ModelList": bodies.ModelList,
    "Ticket": bodies.Ticket,
    "TenantList": feed.TenantList,
    "TenantStanding": bodies.TenantStanding,
    "ServerStanding": bodies.ServerStanding,
    "UsageReport": bodies.UsageReport,
    "AuditLog": bodies.AuditLog,
    "Response": response.Response,
    "ResponseDeleted": bodies.ResponseDeleted,
    "RunList": bodies.RunList,
    "LiveRuns": feed.LiveRuns,
    "RunState": runstate.RunState,
    "RunWithTimeline": feed.RunWithTimeline,
    "Status": status.Status,
    "Steered": bodies.Steered,
}


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line {example.line}")
def test_every_example_is_valid(example: Example) -> None:
    value = example.load()
    if example.model is not None:
        NAMED_MODELS[example.model].model_validate(value)
        return
    if value["type"] in CLIENT_TYPES:
        validate_own_client(value)
    else:
        validate_own(value)
    validate_own_schema(value)


def test_every_frame_has_an_example() -> None:
    shown = {frame["type"] for frame in frames()}
    assert shown == SERVER_EVENT_TYPES | COMMAND_TYPES | EXTENSION_EVENT_TYPES | REQUEST_TYPES


def test_every_named_model_has_an_example() -> None:
    assert {example.model for example in examples()} - {None} == NAMED_MODELS.keys()


def test_every_fenced_block_is_loaded() -> None:
    fences = re.findall(r"^```(\w+)$", protocol_text(), re.MULTILINE)
    assert set(fences) == {"json", "jsonl"}


def test_the_generated_tables_have_no_drift() -> None:
    assert fill(protocol_text()) == protocol_text(), "run python -m antiphon_protocol.tables"


def table(title: str) -> list[str]:
    """First column of the table between the marks named `title`."""
    inside = protocol_text().split(f"<!-- {title}: begin, generated -->")[1].split("<!-- ")[0]
    return re.findall(r"^\| `(\w+)` \|", inside, re.MULTILINE)


def test_the_code_table_lists_exactly_our_codes() -> None:
    assert table("codes") == list(CODES)


def test_the_run_code_table_lists_exactly_the_codes_that_end_runs() -> None:
    assert table("run-codes") == [code for code, spec in CODES.items() if "run" in spec.place]


def test_the_reason_table_lists_exactly_our_reasons() -> None:
    assert table("reasons") == list(INCOMPLETE_REASONS)


def test_the_text_explains_every_code_where_it_arises() -> None:
    body = protocol_text().split("## 12. Codes")[0] + protocol_text().split("<!-- codes: end -->")[1]
    unexplained = {code for code in CODES if f"`{code}`" not in body}
    assert unexplained == set()


def test_sections_are_numbered_without_a_gap() -> None:
    numbers = [int(n) for n in re.findall(r"^## (\d+)\.", protocol_text(), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_cited_section_exists() -> None:
    text = protocol_text()
    headings = set(re.findall(r"^#+ (\d+(?:\.\d+)?)[. ]", text, re.MULTILINE))
    cited: set[Any] = set(re.findall(r"\((\d+\.\d+)(?:\.\d+)?\)", text))
    assert cited <= headings
