"""Content of messages and tool outputs: Responses parts into Chat Completions parts or plain text."""

from __future__ import annotations

from typing import Any

from antiphon.upstream.chat.refusal import unsupported

_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
"""Part types that are text, and the field that holds it. A refusal of before is what the assistant said: few
servers know the field that Chat Completions has for it."""

_DETAILS = frozenset({"auto", "low", "high"})


def content(given: Any, place: str, *, joint: str = "\n") -> str | list[dict[str, Any]]:
    """One string where all is text, which every server and template takes; parts otherwise.

    joint: what stands between texts. Raises RequestError, naming `place`, for what Chat Completions cannot say.
    """
    if isinstance(given, str):
        return given
    parts = [_part(part, f"{place}[{number}]") for number, part in enumerate(_listed(given))]
    if all(part["type"] == "text" for part in parts):
        return joint.join(part["text"] for part in parts)
    return parts


def tool_output(given: Any, place: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a tool's output, and its images and files, which a tool message cannot hold."""
    whole = content(given, place)
    if isinstance(whole, str):
        return whole, []
    texts = [part["text"] for part in whole if part["type"] == "text"]
    return "\n".join(texts), [part for part in whole if part["type"] != "text"]


def reasoning_text(item: dict[str, Any]) -> str:
    """What a reasoning item says in plain text: its content, else its summary; empty if it is only encrypted."""
    for key in ("content", "summary"):
        texts = [part.get("text") for part in _listed(item.get(key)) if isinstance(part, dict)]
        if text := "\n".join(text for text in texts if isinstance(text, str) and text):
            return text
    return ""


def _part(part: Any, place: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _TEXTS:
        text = part.get(_TEXTS[kind])
        return {"type": "text", "text": text if isinstance(text, str) else ""}
    if kind == "input_image":
        return _image(part, place)
    if kind == "input_file":
        return _file(part, place)
    if kind == "input_audio" and isinstance(part.get("input_audio"), dict):
        return {"type": "input_audio", "input_audio": part["input_audio"]}
    raise unsupported(f"The server of this model takes no parts of type {str(kind)[:80]!r}.", f"{place}.type")


def _image(part: dict[str, Any], place: str) -> dict[str, Any]:
    url = part.get("image_url")
    if not isinstance(url, str) or not url:
        message = "The server of this model takes images only as image_url: an address or a data URL."
        raise unsupported(message, f"{place}.{'file_id' if part.get('file_id') else 'image_url'}")
    image = {"url": url}
    if part.get("detail") in _DETAILS:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _file(part: dict[str, Any], place: str) -> dict[str, Any]:
    file = {key: part[key] for key in ("file_data", "filename", "file_id") if part.get(key)}
    if "file_data" not in file and "file_id" not in file:
        message = "The server of this model takes files only as file_data or file_id."
        raise unsupported(message, f"{place}.{'file_url' if part.get('file_url') else 'file_data'}")
    return {"type": "file", "file": file}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
