"""What a turn costs when many came before it: one socket, stored, each turn names the response before it.

CPU of the server is read around the turns near the tenth, in many short conversations before and after a long one,
and around as many turns near the thousandth of that. The longer history is also written to the model server with
every turn, which is no fault of ours. How much that costs at least is measured here: this process posts bodies of
the lengths the mock received to the mock, on one connection, with plain blocking writes. The difference of CPU of
the two lengths is what `net_growth` leaves out. It holds the kernel's work on the bytes and nothing else: reading
the history, putting the body together and the HTTP client stay in.
"""

import argparse
import asyncio
import socket
import time
from urllib.parse import urlsplit

import orjson
from load_clients import COMPLETED_MARK, Tally, Turn, WebSocketClient, open_sockets
from load_follow import RUN_ID
from load_window import Result
from mock_replies import LAST_CHUNK
from picows import WSFrame, WSMsgType, WSTransport
from process_meter import cpu_s

EARLY = range(6, 16)
"""The turns around the tenth, counted from 1."""
SHORT_CONVERSATIONS = 20
LATE_TURNS = 100
"""At most so many turns around the last one that is asked for."""
POSTS = 200


class Talker(WebSocketClient):
    """Turns of a conversation, one after another."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        super().__init__(turn, tally)
        self.first_request = self.request
        self.last_id = ""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT and COMPLETED_MARK in (payload := frame.get_payload_as_bytes()):
            found = RUN_ID.search(payload)
            self.last_id = found.group(1).decode() if found else ""
        super().on_ws_frame(transport, frame)

    def begin_conversation(self) -> None:
        self.request = self.first_request

    async def talk(self, timeout_s: float) -> None:
        """One turn."""
        self.finished = asyncio.get_running_loop().create_future()
        self.begin()
        await asyncio.wait_for(self.finished, timeout_s)
        body = {"type": "response.create", "previous_response_id": self.last_id, **self.turn.body()}
        self.request = orjson.dumps(body)


class Spent:
    """CPU of the server and bytes at the mock over some turns."""

    def __init__(self, server_pid: int, upstream: "Upstream") -> None:
        self.server_pid = server_pid
        self.upstream = upstream
        self.turns = self.body_bytes = 0
        self.cpu_s = 0.0

    async def talk(self, talker: Talker, turns: int, timeout_s: float) -> None:
        """So many more turns, counted."""
        bytes_before, cpu_before_s = self.upstream.body_bytes(), cpu_s(self.server_pid)
        for _ in range(turns):
            await talker.talk(timeout_s)
        self.cpu_s += cpu_s(self.server_pid) - cpu_before_s
        self.body_bytes += self.upstream.body_bytes() - bytes_before
        self.turns += turns

    @property
    def us_per_turn(self) -> float:
        return self.cpu_s / self.turns * 1e6

    @property
    def bytes_per_turn(self) -> int:
        return self.body_bytes // self.turns


class Upstream:
    """A plain connection to the mock; blocking, as nothing else goes on meanwhile."""

    def __init__(self, url: str, timeout_s: float) -> None:
        where = urlsplit(url)
        self.socket = socket.create_connection((where.hostname or "", where.port or 80), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def body_bytes(self) -> int:
        """The bytes of all bodies the mock has received."""
        self.socket.sendall(b"GET /received HTTP/1.1\r\nhost: mock\r\n\r\n")
        reply = self.socket.recv(4096)
        return int(orjson.loads(reply[reply.index(b"\r\n\r\n") + 4 :])["body_bytes"])

    def post_us(self, directive: bytes, length: int) -> float:
        """CPU of posting a body of this length and reading a turn as an answer."""
        frame = b'{"stream":true,"input":"%b%b"}'
        body = frame % (b"x" * max(0, length - len(frame % (b"", directive))), directive)
        request = b"POST /v1/responses HTTP/1.1\r\nhost: mock\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        began_s = time.process_time()
        for _ in range(POSTS):
            self.socket.sendall(request)
            while not self.socket.recv(1 << 16).endswith(LAST_CHUNK):
                pass
        return (time.process_time() - began_s) / POSTS * 1e6


async def run_conversation(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Short conversations, a long one, and short ones again."""
    (talker,) = await open_sockets(lambda: Talker(turn, tally), turn.url, 1, args.timeout_s)
    upstream = Upstream(args.upstream_url, args.timeout_s)
    early, late = Spent(args.server_pid, upstream), Spent(args.server_pid, upstream)
    for half in range(2):
        for _ in range(SHORT_CONVERSATIONS // 2):
            talker.begin_conversation()
            await _talk(talker, EARLY.start - 1, args.timeout_s)
            await early.talk(talker, len(EARLY), args.timeout_s)
        if half == 0:
            late_turns = min(LATE_TURNS, args.turns // 2)
            talker.begin_conversation()
            await _talk(talker, args.turns - late_turns // 2, args.timeout_s)
            await late.talk(talker, late_turns, args.timeout_s)
    talker.close()
    directive = b"[[mock deltas=%d]]" % turn.deltas
    writing_us = upstream.post_us(directive, late.bytes_per_turn) - upstream.post_us(
        directive, early.bytes_per_turn
    )
    return {
        "early_us": early.us_per_turn,
        "late_us": late.us_per_turn,
        "early_body_bytes": early.bytes_per_turn,
        "late_body_bytes": late.bytes_per_turn,
        "writing_us": writing_us,
        "growth": late.us_per_turn / early.us_per_turn,
        "net_growth": (late.us_per_turn - writing_us) / early.us_per_turn,
    }


async def _talk(talker: Talker, turns: int, timeout_s: float) -> None:
    """So many turns that are not counted."""
    for _ in range(turns):
        await talker.talk(timeout_s)
