"""Secrets that tools send along, held so that they cannot slip out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl

from antiphon.errors import StartupError

_SHORTEST_SECRET = 6
"""Shorter values are not looked for in texts: they would be found everywhere."""


class Credentials:
    """Request headers that hold secrets. They show in no `repr`, and `digest` stands for them in keys.

    query: of the address they are sent to, which may hold secrets too.
    """

    __slots__ = ("_headers", "_query")

    def __init__(self, headers: Mapping[str, str] | None = None, query: str = "") -> None:
        self._headers = dict(headers or {})
        self._query = query

    @classmethod
    def from_environment(cls, owner: str, headers_env: Mapping[str, str]) -> Credentials:
        """owner: who sends them, for messages. headers_env: header to variable.

        Raises StartupError for a variable that is not set.
        """
        return cls(dict(zip(headers_env, _values(owner, tuple(headers_env.values())), strict=True)))

    def headers(self) -> dict[str, str]:
        """The headers themselves, for the one request they belong to."""
        return dict(self._headers)

    def digest(self) -> str:
        """SHA-256 of all of them: equal for equal credentials."""
        joined = "\n".join(f"{name.lower()}:{value}" for name, value in sorted(self._headers.items()))
        joined += f"\n?{self._query}" if self._query else ""
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()

    def scrub(self, text: str) -> str:
        """The text without our secrets, for servers that repeat what they were sent."""
        for secret in self._secrets():
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[secret]")
        return text

    def _secrets(self) -> Iterator[str]:
        """The longer before the shorter that it holds."""
        for value in self._headers.values():
            yield from (value, value.rpartition(" ")[2])
        yield self._query
        for pair in self._query.split("&"):
            yield pair.partition("=")[2]
        yield from (value for _, value in parse_qsl(self._query))

    def __repr__(self) -> str:
        return f"Credentials({len(self._headers)} headers)"


def environment_of(owner: str, names: tuple[str, ...]) -> dict[str, str]:
    """The variables a program gets. Raises StartupError for one that is not set."""
    return dict(zip(names, _values(owner, names), strict=True))


def _values(owner: str, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if not os.environ.get(name):
            raise StartupError(f"{owner} needs the environment variable {name}, which is not set")
    return [os.environ[name] for name in names]
