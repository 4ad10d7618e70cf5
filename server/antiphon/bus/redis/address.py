"""Where Redis is: what a URL of the bus says."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import ParseResult, parse_qsl, unquote, urlparse

from antiphon.errors import StartupError

REDIS_PORT = 6379
SENTINEL_PORT = 26379
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SCHEMES = {"redis": REDIS_PORT, "rediss": REDIS_PORT, "redis+sentinel": SENTINEL_PORT}


@dataclass(frozen=True, slots=True)
class BusAddress:
    """hosts: of Redis, or of the sentinels where `service` is set. tls: arguments of the library's TLS connection,
    None without TLS. The text of an address has no secret in it."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    service: str | None
    db: int
    username: str | None
    password: str | None
    sentinel_password: str | None
    tls: dict[str, Any] | None

    def __str__(self) -> str:
        hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.hosts)
        service = f"/{self.service}" if self.service else ""
        return f"{self.scheme}://{hosts}{service}{f'/{self.db}' if self.db else ''}"

    @property
    def hint_of_credentials(self) -> str:
        """Whether the URL had a password, for messages."""
        return "the password in bus_url" if self.password else "bus_url has no password"


def parse_address(url: str) -> BusAddress:
    """Raises StartupError that names the fault and never the password."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise StartupError(
            f"bus_url begins with {scheme[:20]!r}; it is redis://, rediss:// or "
            "redis+sentinel://host:port,host:port/service"
        )
    # Only the library of URLs is asked for the outer parts: it does not know several hosts.
    parsed = urlparse(url)
    credentials, _, netloc = parsed.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    hosts = tuple(_host(part, _SCHEMES[scheme]) for part in netloc.split(",")) if netloc else ()
    if not hosts:
        raise StartupError("bus_url names no host")
    if len(hosts) > 1 and scheme != "redis+sentinel":
        raise StartupError("bus_url names several hosts; that is for redis+sentinel://")
    service, db = _path(parsed, scheme)
    options = dict(parse_qsl(parsed.query))
    address = BusAddress(
        scheme=scheme,
        hosts=hosts,
        service=service,
        db=db,
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_password=options.pop("sentinel_password", None),
        tls=_tls(options) if scheme == "rediss" else None,
    )
    if options:
        raise StartupError(f"bus_url has the unknown option {sorted(options)[0]!r}")
    return address


def _host(part: str, default_port: int) -> tuple[str, int]:
    host, port = part, str(default_port)
    if part.startswith("["):
        host, _, rest = part[1:].partition("]")
        port = rest.removeprefix(":") or port
    elif ":" in part:
        host, _, port = part.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise StartupError(f"bus_url has no usable host:port in {part!r}")
    return host, int(port)


def _path(parsed: ParseResult, scheme: str) -> tuple[str | None, int]:
    """Service and database."""
    parts = [unquote(part) for part in parsed.path.split("/") if part]
    service = None
    if scheme == "redis+sentinel":
        if not parts:
            raise StartupError("bus_url names no service; it is redis+sentinel://host:port,host:port/service")
        service = parts.pop(0)
    if len(parts) > 1 or (parts and not (parts[0].isascii() and parts[0].isdecimal())):
        raise StartupError(f"bus_url names the database {'/'.join(parts)!r}; it is a number")
    return service, int(parts[0]) if parts else 0


def _tls(options: dict[str, str]) -> dict[str, Any]:
    tls: dict[str, Any] = {name: options.pop(name) for name in _TLS_OPTIONS if name in options}
    verify = options.pop("ssl_cert_reqs", "required")
    if verify not in ("required", "none"):
        raise StartupError(f"bus_url has ssl_cert_reqs={verify!r}; it is required or none")
    if verify == "none":
        tls |= {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
    return {"ssl_min_version": ssl.TLSVersion.TLSv1_2, **tls}
