"""schemathesis: requests made from OpenAPI documents, ours and that of Open Responses, and checks of answers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.http.calling import key_of
from tests.outside.outcome import NotHereError, Outcome, Skipped
from tests.outside.programs import PYTHON_BIN, ROOT, python_program, python_version, run
from tests.outside.scripted import MODEL, server

KEY = "outside-key"
OUR_DOCUMENT = ROOT / "protocol" / "openapi.json"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "ignored_auth",
)
LEFT_OUT = {
    "/v1/runs/feed": "its body has no end, and schemathesis reads bodies whole",
    "/v1/admin/start": "it belongs to `/v1/admin/stop`",
    "/v1/admin/stop": "a stopped server refuses all that follows",
}
"""Paths of ours that are not called, and why."""


async def our_document() -> Outcome:
    """Each operation of `/openapi.json`, with good and bad requests."""
    document = json.loads(OUR_DOCUMENT.read_text(encoding="utf-8"))
    pattern = f"^({'|'.join(LEFT_OUT)})$"
    _name_the_model(document, ("CreateRequest",))
    _let_events_pass(document)
    report = await _report(document, "", ("--exclude-path-regex", pattern), CHECKS)
    skipped = [Skipped(len(document["paths"][path]), f"`{path}`", reason) for path, reason in LEFT_OUT.items()]
    return _outcome("our `/openapi.json`", report, _operations(document), skipped)


async def open_responses() -> Outcome:
    """The two operations of the published document, which knows fewer fields and kinds than the server."""
    found = sorted(PYTHON_BIN.parent.glob("lib/python*/site-packages/llm_comply/specs/openresponses.json"))
    if not found:
        raise NotHereError("llm-comply, which brings the document of Open Responses, is not installed")
    published = json.loads(found[0].read_text(encoding="utf-8"))
    _drop_discriminators(published)
    _let_errors_pass(published)
    _name_the_model(published, ("CreateResponseBody", "CompactResponseMethodPublicBody"))
    report = await _report(published, "/v1", (), ("not_a_server_error", "response_schema_conformance"))
    version = published["info"]["version"]
    return _outcome(f"the document of Open Responses {version}", report, _operations(published), ())


def _let_errors_pass(document: dict[str, Any]) -> None:
    """Add an answer to requests that are refused: as published the document describes none."""
    for operation in _each_operation(document):
        operation["responses"]["default"] = {"description": "Refused"}


def _drop_discriminators(node: Any) -> None:
    """They have no mapping, so names of schemas would have to be values of `type`; the branches know better."""
    if isinstance(node, dict):
        if isinstance(node.get("discriminator"), dict):
            del node["discriminator"]
        for child in node.values():
            _drop_discriminators(child)
    elif isinstance(node, list):
        for child in node:
            _drop_discriminators(child)


def _let_events_pass(document: dict[str, Any]) -> None:
    """The schema of a stream is that of its whole text; schemathesis takes it for that of each event."""
    for operation in _each_operation(document):
        for answer in operation["responses"].values():
            if "text/event-stream" in answer.get("content", ()):
                answer["content"]["text/event-stream"] = {}


def _name_the_model(document: dict[str, Any], requests: Sequence[str]) -> None:
    """Have requests name a model that is there: all others are refused before anything else happens."""
    for name in requests:
        schema = document["components"]["schemas"][name]
        schema["properties"]["model"] = {"type": "string", "enum": [MODEL]}
        schema["required"] = sorted({*schema.get("required", ()), "model"})


def _each_operation(document: dict[str, Any]) -> list[dict[str, Any]]:
    methods = {"get", "put", "post", "delete", "patch"}
    return [one for path in document["paths"].values() for method, one in path.items() if method in methods]


def _operations(document: dict[str, Any]) -> int:
    return len(_each_operation(document))


async def _report(
    document: dict[str, Any], base: str, more: Sequence[str], checks: Sequence[str]
) -> dict[str, Any]:
    """Run it, always with the same requests; gives its report. base: where the document's paths begin."""
    program = python_program("schemathesis")
    with tempfile.TemporaryDirectory(prefix="antiphon-schemathesis-") as folder:
        file, report = Path(folder) / "openapi.json", Path(folder) / "report.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        async with server(
            auth="required", key=[key_of(KEY, name="admin", tenant="default", role="admin")]
        ) as running:
            ended = await run(
                *(program, "run", str(file), "--url", running.url + base, "--checks", ",".join(checks)),
                *("--phases", "examples,fuzzing", "--max-examples", "15", "--generation-deterministic"),
                *("--request-timeout", "60", "--continue-on-failure"),
                *("--header", f"Authorization: Bearer {KEY}", "--report-json-path", str(report), *more),
                cwd=Path(folder),
            )
        if not report.exists() or not report.stat().st_size:
            raise NotHereError(f"schemathesis gave no report: {ended.output.strip()[-500:]}")
        read: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return read


def _outcome(against: str, report: dict[str, Any], total: int, skipped: Sequence[Skipped]) -> Outcome:
    """Operations are counted, not requests, whose number is of no meaning."""
    found = [*report["failures"], *report["errors"]]
    failures = [f"{one.get('title')}: {name}" for one in found for name in one.get("operations", ["?"])]
    failing = {name for one in found for name in one.get("operations", ["?"])}
    return Outcome(
        "schemathesis (operations)",
        python_version("schemathesis"),
        against,
        passed=total - len(failing) - sum(skip.count for skip in skipped),
        failures=failures,
        skipped=skipped,
    )
