"""llm-comply: the checks of Open Responses, over HTTP, against a server in front of a scripted model."""

from __future__ import annotations

import json

from tests.outside.outcome import NotHereError, Outcome
from tests.outside.programs import python_program, python_version, run
from tests.outside.scripted import MODEL, server

SUITE = "llm-comply (Open Responses)"
AGAINST = "`/v1/responses` over HTTP, with a scripted model"


async def comply() -> Outcome:
    program = python_program("llm-comply")
    async with server() as running:
        ended = await run(
            program, "run", "--json", "--base-url", f"{running.url}/v1", "--api-key", "any", "--model", MODEL
        )
    if not ended.output.lstrip().startswith("{"):
        raise NotHereError(f"llm-comply gave no report: {ended.output.strip()[-300:]}")
    results = json.loads(ended.output)["results"]
    failures = [f"{one['id']}: {'; '.join(one.get('errors', ()))}" for one in results if one["status"] == "failed"]
    return Outcome(
        SUITE,
        python_version("llm-comply"),
        AGAINST,
        passed=sum(one["status"] == "passed" for one in results),
        failures=failures,
    )
