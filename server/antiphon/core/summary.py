"""The model call behind a compaction: what is asked, and what the answer says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.usage_estimate import Said, said_in

SUMMARY_REQUEST = (
    "Stop here. Everything above except the messages of the user will be removed, and your next answer "
    "takes its place. Write a summary with which somebody who has seen nothing of the work can take it "
    "up. Say what the user wants and which rules the user set; what was done, decided and found out, with "
    "names, paths, ids, numbers and results of tools word for word where they matter; what failed and "
    "why; what is still open, and the next step. Take over what an earlier summary says and what still "
    "holds of it. Do not answer the user, do not call tools, and write nothing but the summary."
)
_FORWARDED = (
    "instructions",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)
"""Fields of the request that hold for its compaction as well. Without tools no model can call one."""


def summary_body(raw: Mapping[str, Any], model: str, context: bytes) -> bytes:
    """The JSON body that asks for a summary. context: the encoded input list."""
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SUMMARY_REQUEST}]}
    return _body(raw, model, context, ask)


def trigger_body(raw: Mapping[str, Any], model: str, context: bytes) -> bytes:
    """The JSON body that asks an upstream to compact by its own means."""
    return _body(raw, model, context, {"type": "compaction_trigger"})


def _body(raw: Mapping[str, Any], model: str, context: bytes, last: dict[str, Any]) -> bytes:
    comma = b"," if context[1:-1].strip() else b""
    whole = context[:-1] + comma + orjson.dumps(last) + b"]"
    body: dict[str, Any] = {"model": model, "input": orjson.Fragment(whole), "stream": True, "store": False}
    body |= {key: raw[key] for key in _FORWARDED if raw.get(key) is not None}
    return orjson.dumps(body)


class AnswerReader:
    """Reads the events of such a call, whatever the upstream's dialect. outcome: None until it has ended."""

    def __init__(self) -> None:
        self._assembler = Assembler(ResponseObject("resp_0", 0, {"model": ""}), lambda prefix: f"{prefix}_0")

    def feed(self, raw: bytes) -> None:
        self._assembler.feed([raw])

    @property
    def outcome(self) -> Outcome | None:
        return self._assembler.outcome

    @property
    def said(self) -> Said:
        """How much the model has given so far."""
        return said_in(self._assembler.items)

    def summary(self) -> str | Outcome:
        """The text of a completed answer, or the failure that it amounts to."""
        texts = [
            part["text"]
            for item in self._finished()
            if item["type"] == "message"
            for part in item["content"]
            if part["type"] == "output_text"
        ]
        text = "".join(texts).strip()
        return self._failure(text, "The model wrote no summary.") or text

    def compaction(self) -> dict[str, Any] | Outcome:
        """The `compaction` item of an upstream that compacts by itself, with its own id, or the failure."""
        found = [item.as_upstream("completed") for item in self._assembler.items if item.type == "compaction"]
        usable = [item for item in found if isinstance(item.get("encrypted_content"), str)]
        return self._failure(usable, "The upstream gave no compaction.") or usable[-1]

    def _finished(self) -> list[dict[str, Any]]:
        return [orjson.loads(item) for item in self._assembler.output_items()]

    def _failure(self, answer: Any, sentence: str) -> Outcome | None:
        outcome = self.outcome
        if outcome is None:
            return failed("upstream_error", "The upstream ended the stream without saying how.", http_status=502)
        if outcome.status == "failed":
            return outcome
        if outcome.status != "completed":
            sentence = f"The compaction was cut short: {outcome.reason}."
        elif answer:
            return None
        return failed("upstream_error", sentence, http_status=502, usage=outcome.usage)
