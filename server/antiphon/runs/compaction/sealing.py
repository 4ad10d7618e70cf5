"""Compacted histories as clients carry them: sealed, so that only a server with the key can read or make them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.core.compaction import SEAL_PREFIX
from antiphon.errors import RequestError, StartupError

_VERSION = f"{SEAL_PREFIX}1."
_NONCE_BYTES = 12
_MIN_KEY_CHARACTERS = 32

SEAL_KEY = "seal.key"
"""Its file in the data folder."""


class Sealer:
    """Seals with AES-256-GCM, bound to the tenant. A blob holds all that is needed to go on from it.

    key: any text of at least 32 characters, the same on every machine; None: the one given to `load`, else the
    file at `path`, made by the first `load`, whose caller holds the data folder's lock.
    """

    def __init__(self, key: str | None, path: Path) -> None:
        self._text = key
        self._path = path
        self._cipher: AESGCM | None = None
        self._fingerprint = ""

    def load(self, shared: str | None = None) -> None:
        """Get the key ready. shared: the one of all nodes. Blocks on the file system. Raises StartupError."""
        if self._text is None:
            self._text = shared
        text = self._text if self._text is not None else self._read_or_make()
        if len(text) < _MIN_KEY_CHARACTERS:
            raise StartupError(
                f"the key that seals compactions has {len(text)} characters; it needs {_MIN_KEY_CHARACTERS} "
                f"({'seal_key' if self._text is not None else self._path})"
            )
        self._fingerprint = hashlib.sha256(b"antiphon seal fingerprint\0" + text.encode()).hexdigest()[:16]
        self._cipher = AESGCM(hashlib.sha256(b"antiphon seal 1\0" + text.encode()).digest())

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without telling them; once the key is loaded."""
        assert self._cipher is not None, "load comes first"
        return self._fingerprint

    def seal(self, items: list[dict[str, Any]], tenant: str) -> str:
        """The `encrypted_content` that holds these items."""
        assert self._cipher is not None, "load comes first"
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, orjson.dumps(items), _bound_to(tenant))
        return _VERSION + base64.urlsafe_b64encode(sealed).decode()

    def open(self, content: str, tenant: str, param: str) -> list[dict[str, Any]]:
        """The items that a blob of ours holds. Raises RequestError `invalid_compaction` naming `param`."""
        assert self._cipher is not None, "load comes first"
        try:
            if not content.startswith(_VERSION):
                raise ValueError("another version")
            sealed = base64.b64decode(content[len(_VERSION) :].encode(), b"-_", validate=True)
            plain = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(tenant))
            items: list[dict[str, Any]] = orjson.loads(plain)
        except (InvalidTag, ValueError, binascii.Error) as error:
            raise RequestError(
                "This compaction cannot be read: it was changed, or made with another key or for another tenant.",
                code="invalid_compaction",
                param=param,
            ) from error
        return items

    def _read_or_make(self) -> str:
        try:
            if not self._path.exists():
                _make(self._path)
            return self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"the key {self._path} cannot be used: {error}") from error


def _make(path: Path) -> None:
    """A new key that only its owner can read, whole on the disk before anything is sealed with it."""
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _bound_to(tenant: str) -> bytes:
    return f"{_VERSION}{tenant}".encode()
