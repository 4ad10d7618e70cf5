"""URLs of images and files in an input, none of which may lead into our own network.

The server fetches none of them, but hands them to upstreams, and one that stands in this network would fetch them
for a caller who could not. What a name resolves to only its fetcher knows: names are judged by their look.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from antiphon.core.addresses import is_public
from antiphon.errors import RequestError

_FETCHED = frozenset({"image_url", "file_url", "video_url", "audio_url"})
_PRIVATE_ZONES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa")
_AMBIGUOUS = re.compile(r"[\\\s\x00-\x1f\x7f]")
"""What parsers of URLs disagree about: some take a backslash for a slash, some drop line breaks."""

_PLACE = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]/?#@]*\]|[^:/?#@\[\]]*)(?::[0-9]*)?(?:[/?#].*)?", re.IGNORECASE)
"""Group 1: the host."""

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def check_input_urls(items: Iterable[Any]) -> None:
    """items: of an input. Raises RequestError `input_url_not_allowed`."""
    for url in _urls(items):
        if not leads_outside(url):
            raise RequestError(
                "The input has a URL that does not lead to a public http(s) address; send the data itself as a "
                "data: URL.",
                code="input_url_not_allowed",
                param="input",
            )


def leads_outside(url: str) -> bool:
    """Whether it is data in itself, or its host is not, by its look, one of this machine or network."""
    if url[:5].lower() == "data:":
        return True
    if _AMBIGUOUS.search(url):
        return False
    place = _PLACE.fullmatch(url)
    return place is not None and _is_outside(place[1].strip("[]"))


def _is_outside(host: str) -> bool:
    # Resolvers take full-width digits and ideographic stops for the plain ones.
    host = unicodedata.normalize("NFKC", host).replace("\u3002", ".").lower().rstrip(".")
    if ":" in host:
        return is_public(host)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return is_public(host)  # 127.1 and 0x7f000001 are addresses, too, and no public one has to be written so
    if len(labels) == 1 or "%" in host:
        return False
    return not any(host == zone or host.endswith(f".{zone}") for zone in _PRIVATE_ZONES)


def _urls(items: Iterable[Any]) -> Iterator[str]:
    """Of all depths. Chat-style parts have them as `{"url": ...}`."""
    waiting: list[Any] = list(items)
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(element for element in value if isinstance(element, list | dict))
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key in _FETCHED and isinstance(inner, dict):
                    inner = inner.get("url")
                if key in _FETCHED and isinstance(inner, str):
                    yield inner
                elif isinstance(inner, list | dict):
                    waiting.append(inner)
