"""What all model servers over HTTP have in common: request, refusal, reading, keys and the list of models."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import httpx2
import orjson

from antiphon import __version__
from antiphon.errors import StartupError, UpstreamError
from antiphon.ports import ModelCall
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream import failures
from antiphon.upstream.answer import first_bytes, looks_like_events
from antiphon.upstream.transport import Answer, HttpRequest, HttpTransport, Transport

_REFUSAL_BYTES = 1024 * 1024
_REFUSAL_S = 2.0
"""A refusal's body explains it; more of it, or a longer wait, explains nothing more."""

_LINGER_S = 1.0
"""After the terminal event the rest of the body is awaited this long, so that the connection can be reused."""

_TAIL_S = 5.0
"""Once the model has said that it is finished, its usage and end marker are awaited this long."""


_OURS = f"accept-encoding: identity\r\nuser-agent: antiphon/{__version__}\r\n".encode("ascii")
_POSTED = b"content-type: application/json\r\n" + _OURS
_STREAMED = b"accept: text/event-stream\r\n" + _POSTED
_WHOLE = {b"POST": b"accept: application/json\r\n" + _POSTED, b"GET": b"accept: application/json\r\n" + _OURS}


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
        transport: Transport | None = None,
        *,
        path: str,
    ) -> None:
        self.name = settings.name
        self._max_event_bytes = max_event_bytes
        self._key = _configured_key(settings)
        self._host, self._url = _url(settings, path)
        self._models_url = _url(settings, "/models")[1]
        self._transport: Transport = transport or HttpTransport(
            connect_s=timeouts.upstream_connect_s,
            first_byte_s=timeouts.upstream_first_byte_s,
            idle_s=timeouts.upstream_idle_s,
        )
        self._lingering: dict[asyncio.Task[None], Answer] = {}

    @abstractmethod
    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """Run the call; see the port. Ends after the terminal event or where the upstream ends politely."""

    @abstractmethod
    async def input_tokens(self, call: ModelCall) -> int | None:
        """How many tokens the call would be read as; see the port."""

    async def _exchange(self, call: ModelCall, body: bytes, reader: Reader) -> AsyncIterator[Sequence[bytes]]:
        """Send `body` and give what `reader` makes of the answer. Raises UpstreamError."""
        answer = await self._ask(b"POST", self._url, call.caller_token, body, call.trace)
        try:
            if not 200 <= answer.status < 300:
                await self._refuse(answer, call.caller_token)
            chunks, kind = _chunks(answer), answer.header(b"content-type").lower()
            chunk = await first_bytes(chunks, kind)
            if not looks_like_events(chunk, kind):
                yield await self._whole_answer(answer, chunk, chunks, call, reader)
                return
            while chunk and not reader.ended:
                if batch := reader.feed(chunk):
                    yield batch
                reader.check()
                if reader.ended:
                    break
                chunk = await (_tail(chunks) if reader.settled else anext(chunks, b""))
            if batch := reader.end():
                yield batch
        except httpx2.TransportError as error:
            raise failures.broke_off(self.name, error, answer.status) from error
        finally:
            if reader.ended and not answer.ended:
                self._linger(answer)
            else:
                await answer.aclose()

    async def models(self) -> Sequence[str]:
        """Names from `GET {url}/models`. Raises UpstreamError."""
        listed = await self._json("a list of models", b"GET", self._models_url, None)
        try:
            return [entry["id"] for entry in listed["data"] if isinstance(entry["id"], str)]
        except (KeyError, TypeError) as error:
            raise self._unreadable("a list of models") from error

    async def _json(
        self,
        what: str,
        method: bytes,
        url: str,
        token: str | None,
        body: bytes = b"",
        trace: Mapping[str, str] | None = None,
    ) -> Any:
        """A whole answer that is JSON. what: it is, for people. Raises UpstreamError."""
        answer = await self._ask(method, url, token, body, trace, _WHOLE[method])
        try:
            if not 200 <= answer.status < 300:
                await self._refuse(answer, token)
            chunks = _chunks(answer)
            raw = await self._whole(await anext(chunks, b""), chunks)
        except httpx2.TransportError as error:
            raise failures.broke_off(self.name, error, answer.status) from error
        finally:
            await answer.aclose()
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise self._unreadable(what) from error

    def _unreadable(self, what: str) -> UpstreamError:
        return UpstreamError(f"Upstream {self.name!r} gave {what} that cannot be read.", http_status=200)

    async def aclose(self) -> None:
        """Close every connection, also those whose last bytes are awaited."""
        for task, body in tuple(self._lingering.items()):
            task.cancel()
            # The task closes it as well, unless it was cancelled before it began.
            await body.aclose()
        await asyncio.gather(*self._lingering, return_exceptions=True)
        await self._transport.aclose()

    async def _ask(
        self,
        method: bytes,
        url: str,
        token: str | None,
        body: bytes = b"",
        trace: Mapping[str, str] | None = None,
        lines: bytes = _STREAMED,
    ) -> Answer:
        # A full set of our own headers: nothing of the caller's request goes to the upstream.
        credential = token or self._key
        if credential:
            lines += b"authorization: %b\r\n" % _authorization(self.name, credential)
        for name, value in (trace or {}).items():
            lines += f"{name}: {value}\r\n".encode("ascii")
        try:
            return await self._transport.ask(HttpRequest(method, url, lines, body))
        except httpx2.TransportError as error:
            raise failures.not_reached(self.name, error) from error

    async def _refuse(self, answer: Answer, token: str | None) -> NoReturn:
        said = failures.read_error(await _some(answer)).without(token or self._key)
        raise failures.refused(
            self.name,
            answer.status,
            said,
            callers_token=token is not None,
            headers=httpx2.Headers(answer.headers),
            answered=answer.status,
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
        answer: Answer,
        start: bytes,
        chunks: AsyncIterator[bytes],
        call: ModelCall,
        reader: Reader,
    ) -> list[bytes]:
        """The events of an upstream that did not stream. Raises UpstreamError for anything else."""
        text = (await self._whole(start, chunks)).removeprefix(b"\xef\xbb\xbf").strip()
        status = answer.status
        try:
            parsed: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            parsed = None
        events = reader.whole(parsed, text) if isinstance(parsed, dict) else None
        if events is not None:
            return events
        error = failures.error_of(parsed)
        if error is None:
            raise failures.unusable(self.name, text, answer.header(b"content-type"), status)
        said = failures.said_by(error).without(call.caller_token or self._key)
        raise failures.error_inside(self.name, said, callers_token=bool(call.caller_token), answered=status)

    def _linger(self, answer: Answer) -> None:
        task = asyncio.get_running_loop().create_task(_read_out(answer))
        self._lingering[task] = answer
        task.add_done_callback(self._lingering.pop)


async def _tail(chunks: AsyncIterator[bytes]) -> bytes:
    """The next chunk of a settled answer: empty at its end, and at a break or after long silence, too."""
    try:
        async with asyncio.timeout(_TAIL_S):
            return await anext(chunks, b"")
    except (httpx2.TransportError, TimeoutError):
        return b""


def _chunks(answer: Answer) -> AsyncIterator[bytes]:
    """The body as it comes; decoded if the upstream compressed it although asked not to."""
    if answer.header(b"content-encoding").lower() in ("", "identity"):
        return answer
    return httpx2.Response(answer.status, headers=answer.headers, stream=_Stream(answer)).aiter_bytes()


class _Stream(httpx2.AsyncByteStream):
    """An answer's body for httpx2, which knows how to decode it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._answer


async def _some(answer: Answer) -> bytes:
    """The beginning of a refusal's body, whatever happens on the way."""
    seen = bytearray()
    try:
        async with asyncio.timeout(_REFUSAL_S):
            async for chunk in _chunks(answer):
                seen += chunk
                if len(seen) > _REFUSAL_BYTES:
                    break
    except (httpx2.HTTPError, TimeoutError):
        pass
    return bytes(seen)


async def _read_out(body: Answer) -> None:
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


def _url(settings: UpstreamSettings, path: str) -> tuple[str, str]:
    """The host, and the whole of it."""
    name = settings.name
    try:
        base = httpx2.URL(settings.url)
    except httpx2.InvalidURL as error:
        raise StartupError(f"the url of upstream {name!r} cannot be read: {error}") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise StartupError(f"the url of upstream {name!r} must begin with http:// or https:// and name a host")
    if base.userinfo:
        raise StartupError(f"the url of upstream {name!r} holds a credential; use key or key_env for it")
    return base.host, str(base.copy_with(path=base.path.rstrip("/") + path))


def _authorization(name: str, credential: str) -> bytes:
    """A bare token is sent as Bearer; a credential that names its scheme as it is."""
    credential = credential.strip()
    if not _fits_header(credential):
        sentence = f"The credential for upstream {name!r} has characters that no header can carry."
        raise UpstreamError(sentence, status=401)
    return (credential if " " in credential else f"Bearer {credential}").encode("ascii")


def _fits_header(credential: str) -> bool:
    return credential.isascii() and credential.isprintable()
