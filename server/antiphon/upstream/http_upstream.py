"""What all model servers over HTTP have in common: request, refusal, reading, keys and the list of models."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

import httpx2
import orjson

from antiphon import __version__
from antiphon.errors import StartupError, UpstreamError
from antiphon.ports import ModelCall
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream import failures
from antiphon.upstream.answer import first_bytes, looks_like_events
from antiphon.upstream.transport import AiohttpTransport

_REFUSAL_BYTES = 1024 * 1024
_REFUSAL_S = 2.0
"""A refusal's body explains it; more of it, or a longer wait, explains nothing more."""

_LINGER_S = 1.0
"""After the terminal event the rest of the body is awaited this long, so that the connection can be reused."""

_TAIL_S = 5.0
"""Once the model has said that it is finished, its usage and end marker are awaited this long."""


class Reader(Protocol):
    """Makes Responses events of one answer, whatever API it is in.

    ended: nothing that follows counts. settled: the model is finished and only a tail may follow, so that
    silence or a break does no harm any more.
    """

    @property
    def ended(self) -> bool: ...

    @property
    def settled(self) -> bool: ...

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes. Raises UpstreamError for one over the limit."""
        ...

    def check(self) -> None:
        """Raises UpstreamError if behind the events given there is one over the limit."""
        ...

    def end(self) -> list[bytes]:
        """What the end of the body completes."""
        ...

    def whole(self, answer: dict[str, Any], text: bytes) -> list[bytes] | None:
        """The events of an answer that was not streamed, None if it is none. text: the same as it came."""
        ...


class HttpUpstream(ABC):
    """A model server over HTTP; its API is what a subclass adds.

    path: where its answers are, behind the configured url. max_event_bytes: largest event, and largest whole
    answer. transport: where requests go; None is the network. Raises StartupError if the settings cannot work.
    """

    tools: tuple[str, ...] = ()

    def __init__(
        self,
        settings: UpstreamSettings,
        timeouts: TimeoutSettings,
        max_event_bytes: int,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        path: str,
    ) -> None:
        self.name = settings.name
        self._max_event_bytes = max_event_bytes
        self._key = _configured_key(settings)
        self._url = _url(settings, path)
        self._models_url = _url(settings, "/models")
        self._transport = transport or AiohttpTransport(
            connect_s=timeouts.upstream_connect_s,
            first_byte_s=timeouts.upstream_first_byte_s,
            idle_s=timeouts.upstream_idle_s,
        )
        self._lingering: dict[asyncio.Task[None], httpx2.AsyncByteStream] = {}

    @abstractmethod
    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """Run the call; see the port. Ends after the terminal event or where the upstream ends politely."""

    async def _exchange(self, call: ModelCall, body: bytes, reader: Reader) -> AsyncIterator[Sequence[bytes]]:
        """Send `body` and give what `reader` makes of the answer. Raises UpstreamError."""
        response = await self._send(self._request("POST", self._url, call.caller_token, body, call.trace))
        answer = _body(response)
        try:
            await self._check_status(response, call.caller_token)
            chunks, kind = _chunks(response), response.headers.get("content-type", "").lower()
            chunk = await first_bytes(chunks, kind)
            if not looks_like_events(chunk, kind):
                yield await self._whole_answer(response, chunk, chunks, call, reader)
                return
            while chunk and not reader.ended:
                if batch := reader.feed(chunk):
                    yield batch
                reader.check()
                chunk = b"" if reader.ended else await _next(chunks, reader)
            if batch := reader.end():
                yield batch
        except httpx2.TransportError as error:
            raise failures.broke_off(self.name, error, response.status_code) from error
        finally:
            if reader.ended:
                self._linger(answer)
            else:
                await answer.aclose()

    async def models(self) -> Sequence[str]:
        """Names from `GET {url}/models`. Raises UpstreamError."""
        response = await self._send(self._request("GET", self._models_url, None, b""))
        body = _body(response)
        try:
            await self._check_status(response, None)
            chunks = _chunks(response)
            raw = await self._whole(await anext(chunks, b""), chunks)
        except httpx2.TransportError as error:
            raise failures.broke_off(self.name, error, response.status_code) from error
        finally:
            await body.aclose()
        try:
            entries = orjson.loads(raw)["data"]
            return [entry["id"] for entry in entries if isinstance(entry["id"], str)]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            sentence = f"Upstream {self.name!r} gave a list of models that cannot be read."
            raise UpstreamError(sentence, http_status=response.status_code) from error

    async def aclose(self) -> None:
        """Close every connection, also those whose last bytes are awaited."""
        for task, body in tuple(self._lingering.items()):
            task.cancel()
            # The task closes it as well, unless it was cancelled before it began.
            await body.aclose()
        await asyncio.gather(*self._lingering, return_exceptions=True)
        await self._transport.aclose()

    def _request(
        self, method: str, url: httpx2.URL, token: str | None, body: bytes, trace: Mapping[str, str] | None = None
    ) -> httpx2.Request:
        # A full set of our own headers: nothing of the caller's request goes to the upstream.
        headers = {
            "accept": "text/event-stream" if method == "POST" else "application/json",
            "accept-encoding": "identity",
            "user-agent": f"antiphon/{__version__}",
            **(trace or {}),
        }
        if method == "POST":
            headers["content-type"] = "application/json"
        credential = token or self._key
        if credential:
            headers["authorization"] = _authorization(self.name, credential)
        return httpx2.Request(method, url, headers=headers, content=body or None)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._transport.handle_async_request(request)
        except httpx2.TransportError as error:
            raise failures.not_reached(self.name, error) from error

    async def _check_status(self, response: httpx2.Response, token: str | None) -> None:
        if response.is_success:
            return
        said = failures.read_error(await _some(response)).without(token or self._key)
        raise failures.refused(
            self.name,
            response.status_code,
            said,
            callers_token=token is not None,
            headers=response.headers,
            answered=response.status_code,
        )

    async def _whole(self, start: bytes, chunks: AsyncIterator[bytes]) -> bytes:
        limit, whole, chunk = self._max_event_bytes, bytearray(), start
        while chunk:
            whole += chunk
            if len(whole) > limit:
                raise UpstreamError(
                    f"Upstream {self.name!r} sent an answer larger than the limit of {limit} bytes."
                )
            chunk = await anext(chunks, b"")
        return bytes(whole)

    async def _whole_answer(
        self,
        response: httpx2.Response,
        start: bytes,
        chunks: AsyncIterator[bytes],
        call: ModelCall,
        reader: Reader,
    ) -> list[bytes]:
        """The events of an upstream that did not stream. Raises UpstreamError for anything else."""
        text = (await self._whole(start, chunks)).removeprefix(b"\xef\xbb\xbf").strip()
        status = response.status_code
        try:
            parsed: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            parsed = None
        events = reader.whole(parsed, text) if isinstance(parsed, dict) else None
        if events is not None:
            return events
        error = failures.error_of(parsed)
        if error is None:
            raise failures.unusable(self.name, text, response.headers.get("content-type", ""), status)
        said = failures.said_by(error).without(call.caller_token or self._key)
        raise failures.error_inside(self.name, said, callers_token=bool(call.caller_token), answered=status)

    def _linger(self, body: httpx2.AsyncByteStream) -> None:
        task = asyncio.get_running_loop().create_task(_read_out(body))
        self._lingering[task] = body
        task.add_done_callback(self._lingering.pop)


async def _next(chunks: AsyncIterator[bytes], reader: Reader) -> bytes:
    """The next chunk, empty at the end of the body; of a settled answer, a break or long silence is it too."""
    if not reader.settled:
        return await anext(chunks, b"")
    try:
        async with asyncio.timeout(_TAIL_S):
            return await anext(chunks, b"")
    except (httpx2.TransportError, TimeoutError):
        return b""


def _body(response: httpx2.Response) -> httpx2.AsyncByteStream:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    return response.stream


def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it comes; decoded if the upstream compressed it although asked not to."""
    if response.headers.get("content-encoding", "identity").lower() == "identity":
        return aiter(_body(response))
    return response.aiter_bytes()


async def _some(response: httpx2.Response) -> bytes:
    """The beginning of a refusal's body, whatever happens on the way."""
    seen = bytearray()
    try:
        async with asyncio.timeout(_REFUSAL_S):
            async for chunk in response.aiter_bytes():
                seen += chunk
                if len(seen) > _REFUSAL_BYTES:
                    break
    except (httpx2.HTTPError, TimeoutError):
        pass
    return bytes(seen)


async def _read_out(body: httpx2.AsyncByteStream) -> None:
    """Wait for the end of a body nobody wants any more, then give its connection back."""
    try:
        async with asyncio.timeout(_LINGER_S):
            async for _ in body:
                pass
    except (httpx2.HTTPError, TimeoutError):
        pass
    finally:
        await body.aclose()


def _configured_key(settings: UpstreamSettings) -> str | None:
    if settings.key is not None:
        key = settings.key.get_secret_value()
    elif settings.key_env is not None:
        key = os.environ.get(settings.key_env, "")
        if not key:
            variable = settings.key_env
            raise StartupError(f"upstream {settings.name!r} takes its key from ${variable}, which is not set")
    else:
        return None
    if not _fits_header(key):
        raise StartupError(f"the key of upstream {settings.name!r} has characters that no header can carry")
    return key or None


def _url(settings: UpstreamSettings, path: str) -> httpx2.URL:
    name = settings.name
    try:
        base = httpx2.URL(settings.url)
    except httpx2.InvalidURL as error:
        raise StartupError(f"the url of upstream {name!r} cannot be read: {error}") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise StartupError(f"the url of upstream {name!r} must begin with http:// or https:// and name a host")
    if base.userinfo:
        raise StartupError(f"the url of upstream {name!r} holds a credential; use key or key_env for it")
    return base.copy_with(path=base.path.rstrip("/") + path)


def _authorization(name: str, credential: str) -> str:
    """A bare token is sent as Bearer; a credential that names its scheme as it is."""
    credential = credential.strip()
    if not _fits_header(credential):
        sentence = f"The credential for upstream {name!r} has characters that no header can carry."
        raise UpstreamError(sentence, status=401)
    return credential if " " in credential else f"Bearer {credential}"


def _fits_header(credential: str) -> bool:
    return credential.isascii() and credential.isprintable()
