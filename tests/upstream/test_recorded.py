"""Recorded answers of many servers: what each amounts to, and that the cuts between reads change nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.upstream.replaying import Replay, names, summary

GRUESSE = "Grüße aus 東京 🚀"

MEANING: dict[str, dict[str, Any]] = {
    "chat_azure_content_filter.txt": {"status": "incomplete", "why": "content_filter", "text": "Once upon"},
    "chat_citations.txt": {"status": "completed", "text": "See the source."},
    "chat_custom_and_namespaced.txt": {
        "status": "completed",
        "calls": [("apply_patch", '*** Begin\n+é 🚀 "q"'), ("functions.exec", "1")],
        "usage": (50, 30),
    },
    "chat_deepseek_length.txt": {
        "status": "incomplete",
        "why": "max_output_tokens",
        "reasoning": "9.11 < 9.9",
        "text": "9.9 é größer.",
        "usage": (18, 11),
    },
    "chat_done_without_reason.txt": {"status": "failed", "why": "upstream_error", "text": "half"},
    "chat_end_without_reason.txt": {"status": "failed", "why": "upstream_error", "text": "half é"},
    "chat_groq_bare_cr.txt": {"status": "completed", "text": "Fast ⚡", "usage": (37, 4)},
    "chat_legacy_function_call.txt": {"status": "completed", "calls": [("get_weather", {"city": "Rome"})]},
    "chat_llamacpp_call.txt": {
        "status": "completed",
        "reasoning": "Need the weather.",
        "calls": [("get_weather", {"city": "Kyōto"})],
        "usage": (97, 24),
    },
    "chat_mistral_parts.txt": {
        "status": "completed",
        "reasoning": "Hm.",
        "text": "Two: Ok 🚀",
        "calls": [("get_weather", {"city": "Nîmes"}), ("get_time", {})],
        "usage": (70, 22),
    },
    "chat_ollama_calls_one_index.txt": {
        "status": "completed",
        "calls": [("get_weather", {"city": "Oslo"}), ("get_time", {"zone": "CET"})],
        "usage": (160, 38),
    },
    "chat_openai_logprobs.txt": {"status": "completed", "text": "Hi 世", "usage": (9, 3)},
    "chat_openai_refusal.txt": {
        "status": "completed",
        "refusal": "I can’t help with that.",
        "usage": (30, 8),
    },
    "chat_openrouter_error.txt": {"status": "failed", "why": "server_error", "text": "Partial"},
    "chat_vllm_parallel_calls.txt": {
        "status": "completed",
        "text": "Looking it up.",
        "calls": [("get_weather", {"city": "Malmö"}), ("get_weather", {"city": "Łódź"})],
        "usage": (180, 41),
    },
    "chat_vllm_reasoning.txt": {
        "status": "completed",
        "reasoning": "The user greets me 👋.",
        "text": f"{GRUESSE}!",
        "usage": (21, 17),
    },
    "chat_whole.json": {
        "status": "completed",
        "reasoning": "Think.",
        "text": "Both: ünï.",
        "calls": [("get_weather", {"city": "A"}), ("get_weather", {"city": "B"})],
        "usage": (12, 9),
    },
    "responses_failed.txt": {"status": "failed", "why": "server_error", "text": "half"},
    "responses_openai_text.txt": {"status": "completed", "text": GRUESSE, "usage": (11, 7)},
    "responses_sparse.txt": {"status": "completed", "text": "only dêltas", "usage": (3, 2)},
    "responses_vllm_call.txt": {
        "status": "completed",
        "reasoning": "Let me löök.",
        "calls": [("get_weather", {"city": "Łódź"})],
        "usage": (40, 20),
    },
    "responses_whole.json": {"status": "completed", "text": GRUESSE, "usage": (11, 7)},
}


@pytest.fixture
async def replay(name: str) -> AsyncIterator[Replay]:
    replay = Replay(name)
    yield replay
    await replay.aclose()


def test_every_recorded_answer_is_judged() -> None:
    assert set(MEANING) == {*names("chat"), *names("responses")}


@pytest.mark.parametrize("name", MEANING)
async def test_an_answer_means_what_its_server_said(name: str, replay: Replay) -> None:
    assert summary(await replay.run()) == MEANING[name]


@pytest.mark.parametrize("name", MEANING)
async def test_an_answer_cut_in_two_anywhere_gives_the_same_log(name: str, replay: Replay) -> None:
    whole, data = await replay.log(), replay.data
    for cut in range(1, len(data)):
        assert await replay.log(data[:cut], data[cut:]) == whole, f"cut at {cut}"


@pytest.mark.parametrize("name", MEANING)
async def test_an_answer_of_single_bytes_gives_the_same_log(name: str, replay: Replay) -> None:
    assert await replay.log(*(bytes([byte]) for byte in replay.data)) == await replay.log()
