"""Reads what a client sent through the relay: upgrades, creates, and whether it fell back to POST."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

UPGRADE = b"GET /v1/responses"
POST = b"POST /v1/responses"


@dataclass
class Wire:
    """One session of a client, over all its connections."""

    upgrades: list[Request] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    posts: int = 0

    @property
    def creates(self) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame.get("type") == "response.create"]


def read_wire(connections: Iterable[bytes | bytearray]) -> Wire:
    """Decode the client's side of each connection. The server must not have agreed to compression."""
    wire = Wire()
    for data in connections:
        if data.startswith(UPGRADE) and b"upgrade: websocket" in data.lower():
            _read_socket(bytes(data), wire)
        else:
            wire.posts += data.count(POST)
    return wire


def _read_socket(data: bytes, wire: Wire) -> None:
    head, end, rest = data.partition(b"\r\n\r\n")
    protocol = ServerProtocol(max_size=None)
    protocol.receive_data(head + end)
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    wire.upgrades.append(request)
    protocol.send_response(protocol.accept(request))
    protocol.receive_data(rest)
    message = b""
    for frame in protocol.events_received():
        if isinstance(frame, Frame) and frame.opcode in (Opcode.TEXT, Opcode.CONT):
            message += frame.data
            if frame.fin:
                wire.frames.append(json.loads(message))
                message = b""
