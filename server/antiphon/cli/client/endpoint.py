"""Where a server is: the addresses that are made of what the person gave."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from antiphon.errors import ClientError

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server. origin: `http(s)://host[:port]`, perhaps with the path it is mounted under."""

    origin: str

    @classmethod
    def read(cls, url: str) -> Endpoint:
        """From an origin or an OpenAI base URL (`.../v1`). Raises ClientError for what is neither."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            named = bool(parts.hostname) and parts.port != 0
        except ValueError:
            named = False
        if not named or parts.scheme not in _SCHEMES or parts.username is not None:
            raise ClientError(f"{url!r} is no address of a server; it looks like http://127.0.0.1:8787")
        path = parts.path.rstrip("/").removesuffix("/responses").removesuffix("/v1")
        return cls(f"{_SCHEMES[parts.scheme]}://{parts.netloc}{path}")

    @property
    def socket(self) -> str:
        return f"ws{self.origin.removeprefix('http')}/v1/responses"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, so that no proxy stands between."""
        host = urlsplit(self.origin).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def would_show_keys(self) -> bool:
        """Whether a key would go over a network in clear text."""
        return self.origin.startswith("http://") and not self.is_loopback

    def page(self, conversation_id: str) -> str:
        """The same conversation in a browser."""
        return f"{self.origin}/?conversation={quote(conversation_id, safe='')}"
