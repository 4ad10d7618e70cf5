"""Whatever is sent: no crash, no answer of 5xx, no close of 1011, and nothing that outlives the servers.

Each round is one run of hypothesis with examples of its own, so that a failure is shrunk and shown. `FUZZ_S`
seconds are spent on each kind of input in turn.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus, ProtocolError
from websockets.sync.client import connect

from tests.fuzz.background import WAIT_S, Background
from tests.fuzz.inputs import BODIES, CREDENTIALS, FRAMES, GARBAGE, HEADERS, METHODS, PATHS
from tests.http.calling import key_of
from tests.support.server import RunningServer

pytestmark = pytest.mark.fuzz

SECRET = "sk-test-fuzz"
LIMITS = {"door": {"creates_per_s": 1e6, "create_burst": 1e6}, "timeouts": {"http_abandon_s": 0.0, "drain_s": 0.5}}
SERVERS: dict[str, dict[str, Any]] = {
    "open": {**LIMITS},
    "closed": {
        **LIMITS,
        "auth": "required",
        "key": [key_of(SECRET, role="admin")],
        "jwt": {"algorithm": "HS256", "secret": "s" * 32},
    },
}
PARTS = 3
PART_S = float(os.environ.get("FUZZ_S", "6")) / PARTS
EXAMPLES = 25

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@contextlib.contextmanager
def servers(caplog: pytest.LogCaptureFixture) -> Iterator[Background]:
    """Both servers; at the end nothing may have gone wrong in them, and nothing may be left of them."""
    caplog.set_level(logging.ERROR)
    background = Background(SERVERS)
    with structlog.testing.capture_logs() as lines, background.running():
        yield background
        for server in background.servers.values():
            hub, places = server.app.hub, server.app.asgi.user_middleware[0].kwargs["places"]
            background.wait_until(lambda hub=hub, places=places: len(hub) == len(places) == 0, "sockets are gone")
    assert [line for line in lines if line["log_level"] in ("error", "critical")] == []
    assert [record.getMessage() for record in caplog.records] == []
    assert background.left_over == []


def for_a_while(one_round: Callable[[], None]) -> None:
    """Rounds until the time is over, one at least."""
    deadline = time.monotonic() + PART_S
    while True:
        one_round()
        if time.monotonic() > deadline:
            return


def exchange(server: RunningServer, sent: bytes) -> bytes:
    """What comes back until the end of the connection; a run that waits for its client may take its time."""
    received = b""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=WAIT_S) as connection:
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(2)
            while data := connection.recv(65536):
                received += data
    return received


def check_answers(received: bytes) -> None:
    """Nothing in it is a fault of the server."""
    for line in received.split(b"\r\n"):
        if line.startswith(b"HTTP/1.1 "):
            assert int(line.split(b" ")[1]) < 500, received[:2000]
    assert b'"server_error"' not in received, received[:2000]


@fuzzed
@given(st.sampled_from(sorted(SERVERS)), METHODS, PATHS, HEADERS, CREDENTIALS, BODIES)
def _request(
    background: Background, name: str, method: str, path: str, headers: list[str], credential: str, body: bytes
) -> None:
    server = background.servers[name]
    lines = [f"{method} {path} HTTP/1.1", f"host: {server.url.removeprefix('http://')}", "connection: close"]
    if credential != "none":
        lines.append(f"authorization: {f'Bearer {SECRET}' if credential == 'good' else credential}")
    if body and not any(header.startswith("content-type") for header in headers):
        lines.append("content-type: application/json")
    lines += [*headers, f"content-length: {len(body)}", "", ""]
    check_answers(exchange(server, "\r\n".join(lines).encode("latin-1") + body))


@fuzzed
@given(st.sampled_from(sorted(SERVERS)), GARBAGE, st.binary(max_size=60))
def _bytes(background: Background, name: str, garbage: bytes, of_socket: bytes) -> None:
    server = background.servers[name]
    check_answers(exchange(server, garbage))
    host = server.url.removeprefix("http://")
    upgrade = (
        f"GET /v1/responses HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        f"authorization: Bearer {SECRET}\r\nsec-websocket-version: 13\r\n"
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    received = exchange(server, upgrade.encode() + of_socket)
    check_answers(received)
    assert b"\x03\xf3" not in received.partition(b"\r\n\r\n")[2], "closed with 1011"


@fuzzed
@given(st.sampled_from(sorted(SERVERS)), st.booleans(), st.booleans(), st.lists(FRAMES, min_size=1, max_size=8))
def _frames(background: Background, name: str, hello: bool, known: bool, frames: list[str | bytes]) -> None:
    """Frames, then a ping: it is answered, or the socket was closed for a reason that is the client's."""
    server = background.servers[name]
    headers = {"authorization": f"Bearer {SECRET}"} if known else {}
    try:
        client = connect(server.ws_url, additional_headers=headers, compression=None, proxy=None, max_size=None)
    except InvalidStatus as refusal:
        assert refusal.response.status_code < 500
        return
    with client:
        try:
            if hello:
                client.send(
                    json.dumps({"type": "antiphon:hello", "id": "h", "protocol": 1, "client": {"name": "f"}})
                )
            for frame in frames:
                client.send(frame)
            client.send('{"type": "antiphon:ping", "id": "the last one"}')
            while True:
                text = client.recv(WAIT_S)
                assert '"server_error"' not in text, text
                if '"the last one"' in text and isinstance(text, str):
                    return
        except (ConnectionClosed, ProtocolError):
            assert client.close_code not in (None, 1006, 1011), client.close_code


ROUNDS: dict[str, Callable[..., None]] = {"requests": _request, "bytes": _bytes, "frames": _frames}
assert len(ROUNDS) == PARTS


@pytest.mark.parametrize("kind", ROUNDS)
def test_nothing_that_is_sent_breaks_a_server(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with servers(caplog) as background:
        for_a_while(lambda: ROUNDS[kind](background))
