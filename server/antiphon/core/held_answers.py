"""What a client injects: the outputs of held calls, read and checked before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from antiphon.core.faults import refusal
from antiphon.core.history import answer_type, answered_call_id
from antiphon.errors import RequestError
from antiphon_protocol import items, items_hosted, items_shell
from antiphon_protocol.base import Wire

APPROVAL_REQUEST = "mcp_approval_request"
APPROVAL_ANSWER = "mcp_approval_response"

_MODELS: dict[str, type[Wire]] = {
    "function_call_output": items.FunctionCallOutput,
    "custom_tool_call_output": items.CustomToolCallOutput,
    "computer_call_output": items_hosted.ComputerCallOutput,
    "local_shell_call_output": items_shell.LocalShellCallOutput,
    "shell_call_output": items_shell.ShellCallOutput,
    "apply_patch_call_output": items_shell.ApplyPatchCallOutput,
    APPROVAL_ANSWER: items_hosted.McpApprovalResponse,
}
"""Items that answer a held call. An accepted one goes into the log, so it must be right in every field."""

_OPTIONS = frozenset({"result_id", "fence"})
_MAX_RESULT_ID = 256


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One answer as given. item: without our `antiphon` object, the call in `call_id` and no id of the client's.

    result_id: the sender's own name of this result, for repeats. fence: of the claim under which it was made.
    """

    call_id: str
    type: str
    item: dict[str, Any]
    result_id: str | None = None
    fence: int | None = None


def read_answers(given: list[Any]) -> list[GivenAnswer]:
    """The answers of an inject. Raises RequestError `invalid_input` naming the item at fault."""
    if not given:
        raise _invalid("An inject brings at least one output.", "input")
    answers: dict[str, GivenAnswer] = {}
    for index, item in enumerate(given):
        place = f"input[{index}]"
        answer = _read(item, place)
        if answer.call_id in answers:
            raise _invalid(f"Call {answer.call_id[:80]} is answered twice in this list.", place)
        answers[answer.call_id] = answer
    return list(answers.values())


def late_answer(item_type: str, call_id: str, waited_s: float) -> dict[str, Any] | None:
    """What the model is told about a call nobody answered; None for a kind that has no words (a screenshot)."""
    text = f"No client answered this call within {waited_s:g} seconds."
    if item_type == APPROVAL_REQUEST:
        answer = {"approval_request_id": call_id, "approve": False, "reason": "Nobody answered in time."}
        return {"type": APPROVAL_ANSWER, **answer}
    answer = {"type": answer_type(item_type), "call_id": call_id, "status": "completed"}
    if item_type == "shell_call":
        return {**answer, "output": [{"stdout": "", "stderr": text, "outcome": {"type": "timeout"}}]}
    if item_type == "apply_patch_call":
        return {**answer, "status": "failed", "output": text}
    return None if item_type == "computer_call" else {**answer, "output": text}


def _read(item: Any, place: str) -> GivenAnswer:
    if not isinstance(item, dict):
        raise _invalid("An output is an object.", place)
    kind = item.get("type")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None or not isinstance(kind, str):
        raise _invalid("An inject takes outputs of calls and answers to approvals only.", f"{place}.type")
    named = "approval_request_id" if kind == APPROVAL_ANSWER else "call_id"
    call_id = item.get(named) if kind == APPROVAL_ANSWER else answered_call_id(item)
    if not isinstance(call_id, str) or not call_id:
        raise _invalid("An answer names its call.", f"{place}.{named}")
    result_id, fence = _options(item.get("antiphon"), f"{place}.antiphon")
    kept = {key: value for key, value in item.items() if key not in ("antiphon", "id")}
    if kind != APPROVAL_ANSWER:
        kept["call_id"] = call_id
        if kept.get("status") in (None, "in_progress"):
            kept["status"] = "completed"  # it is given, so it is done
    try:
        model.model_validate({**kept, "id": call_id})
    except ValidationError as error:
        fault = refusal(error, kept, code="invalid_input")
        raise _invalid(f"{place}: {fault.message}", f"{place}.{fault.param}" if fault.param else place) from error
    return GivenAnswer(call_id, kind, kept, result_id, fence)


def _options(given: Any, place: str) -> tuple[str | None, int | None]:
    """(result_id, fence). An unknown key is refused, as everywhere in our own object."""
    if given is None:
        return None, None
    if not isinstance(given, dict):
        raise _invalid("antiphon is an object.", place)
    for key in given:
        if key not in _OPTIONS:
            raise _invalid(f"{key[:80]} is not a field of the antiphon object.", f"{place}.{key[:80]}")
    result_id, fence = given.get("result_id"), given.get("fence")
    if result_id is not None and not (isinstance(result_id, str) and 1 <= len(result_id) <= _MAX_RESULT_ID):
        raise _invalid(f"result_id is a string of 1 to {_MAX_RESULT_ID} characters.", f"{place}.result_id")
    if fence is not None and (isinstance(fence, bool) or not isinstance(fence, int) or fence < 0):
        raise _invalid("fence is the number a claim was answered with.", f"{place}.fence")
    return result_id, fence


def _invalid(message: str, param: str) -> RequestError:
    return RequestError(message, code="invalid_input", param=param)
