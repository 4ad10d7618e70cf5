"""Forward proxies: which one a request goes through, and what it is told."""

from __future__ import annotations

import base64
import functools
import urllib.request

import httpx2


@functools.lru_cache(maxsize=64)
def environment_proxy(scheme: str, host: str) -> str | None:
    """The URL of the proxy that the environment names; never one for loopback."""
    if host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all")


@functools.lru_cache(maxsize=64)
def proxy_authorization(proxy: str) -> bytes:
    """The header line with the credentials in a proxy's URL; nothing where it has none."""
    url = httpx2.URL(proxy)
    if not url.username:
        return b""
    pair = base64.b64encode(f"{url.username}:{url.password}".encode())
    return b"proxy-authorization: Basic %b\r\n" % pair
