"""What is sent: things a client could have meant, with parts of them replaced, and things that nobody means."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

_TEXT = Path(__file__).parents[2] / "protocol" / "PROTOCOL.md"
_EXAMPLES = [json.loads(line) for line in re.findall(r"^(\{.*\})$", _TEXT.read_text(), re.MULTILINE)]

COMMANDS: list[dict[str, Any]] = [
    example
    for example in _EXAMPLES
    if str(example.get("type", "")).startswith(("antiphon:", "response.")) and "sequence_number" not in example
]
"""Every frame of the protocol's document that is no event, those of the server among them."""

CREATES: list[dict[str, Any]] = [
    {"model": "antiphon/echo", "input": "hello"},
    {"model": "antiphon/echo", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    {
        "model": "antiphon/demo",
        "input": "What is the weather?",
        "tools": [{"type": "function", "name": "get_weather"}],
    },
    {"model": "antiphon/echo", "input": "x", "store": False, "previous_response_id": "resp_0"},
    {"model": "antiphon/echo", "input": [], "antiphon": {"labels": {"a": "b"}, "visibility": "private"}},
    {"model": "agent:reviewer", "input": "x", "stream": True},
]

_IDS = st.sampled_from(
    ["resp_019da2c47b1e7c3a9f00112233445566", "conv_1", "call_1", "", "resp_", "..", "%2e%2e", "\x00", "a" * 300]
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | _IDS
    | st.sampled_from(["function", "message", "hold", "antiphon/echo", "http://169.254.169.254/", "data:,x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn, templates: list[dict[str, Any]]) -> dict[str, Any]:
    """A template in which up to three values, somewhere, are others, gone, or have a neighbour."""
    value = copy.deepcopy(draw(st.sampled_from(templates)))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            change = draw(st.sampled_from(["replace", "remove", "add"]))
            if change == "remove":
                del place[key]
            elif change == "add" and isinstance(place, dict):
                place[draw(st.text(max_size=8))] = draw(JSON)
            else:
                place[key] = draw(JSON)
            break
    return value


FRAMES: st.SearchStrategy[str | bytes] = st.one_of(
    mutated(COMMANDS).map(json.dumps),
    mutated([{"type": "response.create", **create} for create in CREATES]).map(json.dumps),
    JSON.map(json.dumps),
    st.text(max_size=60),
    st.binary(max_size=60),
    st.integers(1, 3000).map(lambda depth: '{"type":' * depth + "1" + "}" * depth),
    st.integers(1, 3000).map(lambda depth: '{"a":' + "[" * depth),
    st.integers(1, 3000).map(lambda digits: '{"type": "antiphon:ping", "id": ' + "9" * digits + "}"),
)

METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "get", "QUERY"])

_NAMES = [
    "v1", "responses", "input_items", "cancel", "compact", "models", "agents", "tickets", "usage", "admin",
    "calls", "steer", "output", "tenants", "pause", "stop", "audit", "health", "ready", "js", "index.html",
    "antiphon/echo",
]  # fmt: skip
_SEGMENTS = st.sampled_from(_NAMES) | _IDS | st.text(max_size=10)


def _quoted(text: str) -> str:
    """Text as it can stand in a request line: what may not, as percent escapes of its bytes."""
    raw = text.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if chr(byte).isalnum() or chr(byte) in "._-~/:%" else f"%{byte:02X}" for byte in raw)


PATHS = st.builds(
    lambda segments, query: "/" + "/".join(map(_quoted, segments)) + (f"?{query}" if query else ""),
    st.lists(_SEGMENTS, max_size=3).map(lambda rest: ["v1", *rest]) | st.lists(_SEGMENTS, max_size=4),
    st.sampled_from(
        ["", "stream=true", "limit=-1", "starting_after=9&epoch=x", "ticket=x", "a=%ff&&=", "from=x&by=y"]
    ),
)

BODIES: st.SearchStrategy[bytes] = st.one_of(
    mutated(CREATES).map(lambda body: json.dumps(body).encode()),
    mutated(COMMANDS).map(lambda body: json.dumps(body).encode()),
    JSON.map(lambda body: json.dumps(body).encode()),
    st.binary(max_size=60),
    st.just(b""),
)

HEADERS = st.lists(
    st.sampled_from(
        [
            "origin: null", "origin: https://evil.example", "content-type: application/json",
            "content-type: text/plain", "content-encoding: gzip", "expect: 100-continue",
            "accept-encoding: gzip, br", "last-event-id: x.y.z",
            "last-event-id: 0.18446744073709551616", "idempotency-key: k", "idempotency-key: " + "k" * 300,
            "x-forwarded-for: 1.1.1.1", "x-upstream-authorization: Bearer x", "range: bytes=0-", "x-a: \xff\xfe",
            "antiphon-instance: \x80", "if-none-match: *", "if-modified-since: never", "cookie: a=b",
        ]
    ),
    max_size=3,
)  # fmt: skip

CREDENTIALS = st.sampled_from(["good", "good", "good", "none"]) | st.sampled_from(
    [
        "Bearer ",
        "Bearer wrong",
        "Basic YTpi",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer a.b.c",
        "bearer ak_x",
        "\xff",
    ]
)

GARBAGE: st.SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=100),
    st.binary(max_size=20).map(lambda tail: b"GET / HTTP/1.1\r\nhost: x\r\n" + tail),
    st.binary(max_size=20).map(
        lambda tail: b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + tail
    ),
)
