"""Bounded HTTP requests to servers that the operator configured."""

from __future__ import annotations

from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from antiphon.errors import ToolError

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer as text."""

    status: int
    text: str
    media_type: str = ""
    """Lower case, without its parameters."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def open_client() -> httpx2.AsyncClient:
    """No redirects, no cookies kept, no proxy for this machine itself. The total time is the caller's to bound."""
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=_CONNECT_S),
        limits=httpx2.Limits(max_connections=None),
        # One call must not leave anything behind that the next one, of somebody else, sends along.
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        mounts=dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]")),
    )


async def fetch(client: httpx2.AsyncClient, request: httpx2.Request, max_bytes: int) -> Answer:
    """Send and read, stopping at `max_bytes`. Raises ToolError; its text names no address and no header."""
    # Compressed answers could grow a thousandfold after they were counted.
    request.headers["accept-encoding"] = "identity"
    try:
        response = await client.send(request, stream=True)
    except httpx2.TransportError as error:
        raise ToolError(f"The tool's server could not be reached ({type(error).__name__}).") from error
    try:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ToolError("The tool's server sent a compressed answer, which was not asked for.")
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > max_bytes:
                raise ToolError(f"The output is larger than {max_bytes} bytes, the limit of this tool.")
            chunks.append(chunk)
        text = b"".join(chunks).decode(response.charset_encoding or "utf-8")
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Answer(response.status_code, text, media_type)
    except httpx2.TransportError as error:
        raise ToolError(f"The tool's server broke off its answer ({type(error).__name__}).") from error
    except (UnicodeDecodeError, LookupError) as error:
        raise ToolError("The tool's server answered with something that is not text.") from error
    finally:
        await response.aclose()
