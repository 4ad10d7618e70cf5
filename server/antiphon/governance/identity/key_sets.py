"""The keys that signed tokens are checked with: a secret, or a JSON Web Key Set in a file or at an address."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import httpx2
import jwt
import orjson
import structlog

from antiphon.bus.tasks import end_tasks
from antiphon.errors import AntiphonError, StartupError
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

_MAX_BYTES = 1024 * 1024
_FETCH_WITHIN_S = 5.0
_AGAIN_AFTER_S = 5.0
"""A token can name any key: one that is not there has the set read again no oftener than this."""


class VerifyingKeys(Protocol):
    """Where a key is found by the `kid` of a token."""

    async def find(self, kid: str | None) -> jwt.PyJWK | bytes | None:
        """None: there is no such key. Raises AntiphonError `identity_unavailable`."""
        ...


class Secret:
    """The one key of HS256."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    async def find(self, kid: str | None) -> bytes:
        return self._secret


class KeySet:
    """Keys of one algorithm, read by `read` and believed for `cache_s`; read again when that is half over, while
    they still count.

    A key for another algorithm, or for encryption, is not one of them, whatever its id.
    """

    def __init__(self, algorithm: str, read: Callable[[], Awaitable[bytes]], clock: Clock, cache_s: float) -> None:
        self._algorithm = algorithm
        self._read = read
        self._clock = clock
        self._cache_s = cache_s
        self._keys: list[jwt.PyJWK] = []
        self._read_at = self._tried_at = float("-inf")
        self._reading = asyncio.Lock()
        self._ahead: asyncio.Task[None] | None = None
        """Reads again before it has to be."""

    async def find(self, kid: str | None) -> jwt.PyJWK | None:
        """A token without `kid` is checked with the only key there is. Raises `identity_unavailable`."""
        key = self._among(kid)
        if key is not None and self._age_s() <= self._cache_s:
            if self._age_s() > self._cache_s / 2 and self._ahead is None:
                self._ahead = asyncio.get_running_loop().create_task(self._refresh_ahead(), name="token keys")
            return key
        await self._refresh()
        key = self._among(kid)
        if self._age_s() > self._cache_s:
            raise AntiphonError(
                "The keys that tokens are checked with cannot be had at the moment.",
                code="identity_unavailable",
                headers={"retry-after": "5"},
            )
        return key

    async def load(self) -> int:
        """Read them now; how many there are. Raises StartupError."""
        try:
            self._take(await self._read())
        except (OSError, ValueError, httpx2.HTTPError) as error:
            raise StartupError(f"the keys for tokens cannot be read: {error or type(error).__name__}") from error
        if not self._keys:
            raise StartupError(f"the key set for tokens holds no key for {self._algorithm}")
        return len(self._keys)

    async def aclose(self) -> None:
        """Read no more."""
        await end_tasks([self._ahead])

    def _age_s(self) -> float:
        return self._clock.monotonic() - self._read_at

    def _among(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.key_id == kid), None)

    async def _refresh_ahead(self) -> None:
        try:
            await self._refresh()
        finally:
            self._ahead = None

    async def _refresh(self) -> None:
        """Read again, once for all who wait, and not again at once."""
        async with self._reading:
            if self._clock.monotonic() - self._tried_at < _AGAIN_AFTER_S:
                return
            self._tried_at = self._clock.monotonic()
            try:
                self._take(await self._read())
            except (OSError, ValueError, httpx2.HTTPError) as error:
                log.warning("token_keys_not_read", error=str(error) or type(error).__name__)
                # It may have taken long, and those who wait must not try one after the other.
                self._tried_at = self._clock.monotonic()

    def _take(self, text: bytes) -> None:
        """Raises ValueError if it is no key set."""
        self._keys = _parse(text, self._algorithm)
        self._read_at = self._tried_at = self._clock.monotonic()


def _parse(text: bytes, algorithm: str) -> list[jwt.PyJWK]:
    found = orjson.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ValueError("it is no JSON Web Key Set")
    keys = []
    for row in found["keys"]:
        if not isinstance(row, dict) or row.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(row)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # of a kind we do not know, or broken: the others still count
        if key.algorithm_name == algorithm:
            keys.append(key)
    return keys


def file_reader(path: Path) -> Callable[[], Awaitable[bytes]]:
    """Reads a key set from a file."""

    async def read() -> bytes:
        return await asyncio.to_thread(path.read_bytes)

    return read


def url_reader(client: httpx2.AsyncClient, url: str) -> Callable[[], Awaitable[bytes]]:
    """Fetches a key set. What is read raises ValueError, httpx2.HTTPError or TimeoutError (an OSError)."""

    async def read() -> bytes:
        async with asyncio.timeout(_FETCH_WITHIN_S), client.stream("GET", url) as response:
            if response.status_code != 200:
                raise ValueError(f"{url} answered {response.status_code}")
            text = b""
            async for chunk in response.aiter_bytes():
                text += chunk
                if len(text) > _MAX_BYTES:
                    raise ValueError(f"{url} gave more than {_MAX_BYTES} bytes")
            return text

    return read
