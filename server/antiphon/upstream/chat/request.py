"""A Responses body as the body of a Chat Completions call. Pure.

Left out, because a Chat Completions server has no use for it: `metadata` (OpenAI takes it only for stored
completions, and ours stays on our response), `include` of what it never gives, `truncation` and
`context_management` (permissions, not demands), `max_tool_calls` (counts hosted tools only), `store`.
"""

from __future__ import annotations

from typing import Any

from antiphon.upstream.chat.messages import Message, Transcript
from antiphon.upstream.chat.refusal import unsupported
from antiphon.upstream.chat.tools import ChatTools

_KEPT = (
    "model",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)
"""Fields of one name and one meaning in both APIs."""

_NEW_LIMIT_HOSTS = ("openai.com", "openai.azure.com")


def check_chat_body(body: dict[str, Any]) -> None:
    """Whether a Chat Completions server can be asked this. Raises RequestError naming the field at fault.

    `body` may be partial: only the new input, with the fields of the request. A `tool_choice` is looked up in the
    tools that `body` holds, so leave it out where earlier input may have brought more.
    """
    chat_body(body, ChatTools(body), "max_tokens")


def limit_field(host: str) -> str:
    """What the server at `host` calls the limit of an answer's tokens.

    OpenAI's reasoning models refuse `max_tokens`. Everybody else knows it, and several, Ollama among them,
    ignore `max_completion_tokens` without a word.
    """
    is_openai = any(host == known or host.endswith(f".{known}") for known in _NEW_LIMIT_HOSTS)
    return "max_completion_tokens" if is_openai else "max_tokens"


def chat_body(body: dict[str, Any], tools: ChatTools, limit: str) -> dict[str, Any]:
    """The body to send. tools: of the same body. limit: see `limit_field`. Raises RequestError."""
    if body.get("prompt") is not None:
        raise unsupported("The server of this model has no stored prompts.", "prompt")
    chat = {key: body[key] for key in _KEPT if body.get(key) is not None}
    chat["messages"] = _messages(body, tools)
    chat["stream"] = True
    chat["stream_options"] = {"include_usage": True}
    if body.get("max_output_tokens") is not None:
        chat[limit] = body["max_output_tokens"]
    reasoning = body.get("reasoning") or {}
    if reasoning.get("effort") is not None:
        chat["reasoning_effort"] = reasoning["effort"]
    return {**chat, **_text(body.get("text") or {}), **_logprobs(body), **_tools(body, tools)}


def _messages(body: dict[str, Any], tools: ChatTools) -> list[Message]:
    transcript = Transcript(tools)
    for name, role in (("instructions", "system"), ("input", "user")):
        given = body.get(name)
        if isinstance(given, str):
            transcript.add({"role": role, "content": given}, name)
        for number, item in enumerate(given if isinstance(given, list) else ()):
            transcript.add(item, f"{name}[{number}]")
    return transcript.messages()


def _text(text: dict[str, Any]) -> dict[str, Any]:
    chat: dict[str, Any] = {}
    if text.get("verbosity") is not None:
        chat["verbosity"] = text["verbosity"]
    given = text.get("format") or {"type": "text"}
    kind = given.get("type")
    if kind == "json_schema":
        schema = {key: value for key, value in given.items() if key != "type" and value is not None}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        chat["response_format"] = {"type": "json_object"}
    elif kind != "text":
        message = f"The server of this model has no format of type {str(kind)[:80]!r}."
        raise unsupported(message, "text.format.type")
    return chat


def _logprobs(body: dict[str, Any]) -> dict[str, Any]:
    top = body.get("top_logprobs")
    if not top and "message.output_text.logprobs" not in (body.get("include") or ()):
        return {}
    return {"logprobs": True, "top_logprobs": top} if top else {"logprobs": True}


def _tools(body: dict[str, Any], tools: ChatTools) -> dict[str, Any]:
    """Without tools, servers refuse the fields that speak of them."""
    choice, offered = tools.choose(body.get("tool_choice"))
    if not offered:
        return {}
    chat: dict[str, Any] = {"tools": offered}
    if choice is not None:
        chat["tool_choice"] = choice
    if body.get("parallel_tool_calls") is not None:
        chat["parallel_tool_calls"] = body["parallel_tool_calls"]
    return chat
