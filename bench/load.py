"""Load client for any server that speaks Responses over WebSocket, on this machine only.

Behind the server stands `mock_upstream.py`, whose directive travels in the user's text.

    load.py throughput --url ws://127.0.0.1:8787/v1/responses --sockets 10 --deltas 200 --server-pid PID
    load.py turns      --url ... --sockets 1             one-delta turns
    load.py paced      --url ... --sockets 50 --rate 50  latency from upstream write to client read
    load.py idle       --url ... --sockets 1000          memory per idle socket
    load.py conversation --url ... --turns 1000 --store  what a turn costs when so many came before it
    load.py held       --url ... --sockets 100 --store   answers to held calls: from client to model
    load.py waiting    --url ... --sockets 1000 --store  memory and CPU of runs that wait for a tool
    load.py viewers    --url ... --sockets 1000 --rate 10   one run on so many sockets
    load.py dashboards --url ... --sockets 1000 --rate 2    one feed on so many, and runs that begin and end
    load.py stalled    --url ... --sockets 100 --deltas 60000   what viewers that never read do to a run
    load.py paced --wire sse --url http://127.0.0.1:MOCK/v1/responses   straight to the mock: the rig's floor

Prints one JSON object. Everything ends by itself: `--seconds` are measured, `--timeout-s` bounds the rest.
"""

import argparse
import asyncio
import gc
import sys
import time
from urllib.parse import urlsplit

import orjson
import uvloop
from load_clients import Tally, Turn, TurnClient, connect
from load_conversation import run_conversation
from load_held import run_held, run_waiting
from load_viewers import run_dashboards, run_stalled, run_viewers
from load_window import CpuWindow, Result, meter, quantiles_ms, raise_priority
from process_meter import raise_open_files_limit, rss_bytes, sockets_by_process

LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "::1"}


async def wait_for_end(clients: list[TurnClient], tally: Tally, timeout_s: float) -> None:
    """Wait for the turns that still run; those that never end are errors."""
    _, late = await asyncio.wait([client.finished for client in clients], timeout=timeout_s)
    for _ in late:
        tally.fail(f"turn not finished within {timeout_s:g} s")


def server_sockets(args: argparse.Namespace) -> list[int]:
    """How many of our connections each process of the server holds."""
    return sockets_by_process(args.server_pid, urlsplit(args.url[0]).port or 0) if args.server_pid else []


async def run_throughput(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Closed loop: every socket always has one turn in flight."""
    clients = await connect(turn, tally, args.sockets, args.wire, args.timeout_s)
    held = server_sockets(args)
    for client in clients:
        client.begin()
    await asyncio.sleep(args.warm_up_s)
    tally.turn_ns.clear()
    tally.first_event_ns.clear()
    window = CpuWindow(args)
    window.start()
    events, turns = tally.events, tally.turns
    await asyncio.sleep(args.seconds)
    events, turns = tally.events - events, tally.turns - turns
    window.stop()
    turn_ns, first_ns = list(tally.turn_ns), list(tally.first_event_ns)
    tally.stopping = True
    await wait_for_end(clients, tally, args.timeout_s)
    for client in clients:
        client.close()
    return {
        **window.result(events, turns),
        "turn_ms": quantiles_ms(turn_ns),
        "first_event_ms": quantiles_ms(first_ns),
        "server_sockets": held,
    }


async def run_paced(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Open loop: the upstream sets the pace; streams start spread over one interval."""
    clients = await connect(turn, tally, args.sockets, args.wire, args.timeout_s)
    priority = raise_priority()
    tally.latency_from_ns = time.time_ns() + round(args.warm_up_s * 1e9)
    for client in clients:
        client.begin()
        await asyncio.sleep(1 / args.rate / args.sockets)
    await asyncio.sleep(max(0.0, (tally.latency_from_ns - time.time_ns()) / 1e9))
    window = CpuWindow(args)
    window.start()
    events = tally.events
    await asyncio.sleep(max(0.5, args.seconds - 0.5))
    events = tally.events - events
    window.stop()
    await wait_for_end(clients, tally, args.timeout_s)
    for client in clients:
        client.close()
    return {
        **window.result(events, 0),
        "client_priority": priority,
        "samples": len(tally.latency_ns),
        "expected_events_per_s": args.sockets * args.rate,
        "latency_ms": quantiles_ms(tally.latency_ns),
    }


async def run_idle(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Memory of the server before, with N open sockets, and after one turn on each of them."""
    fresh_bytes = rss_bytes(args.server_pid)
    began_s = time.perf_counter()
    clients = await connect(turn, tally, args.sockets, args.wire, args.timeout_s)
    connect_s = time.perf_counter() - began_s
    await asyncio.sleep(1)
    open_bytes = rss_bytes(args.server_pid)
    for i in range(0, len(clients), 50):
        for client in clients[i : i + 50]:
            client.begin()
        await wait_for_end(clients[i : i + 50], tally, args.timeout_s)
    await asyncio.sleep(1)
    window = CpuWindow(args)
    window.start()
    await asyncio.sleep(args.seconds)
    window.stop()
    warm_bytes = rss_bytes(args.server_pid)
    for client in clients:
        client.close()
    return {
        "fresh_rss_mb": fresh_bytes / 1e6,
        "idle_socket_kb": (open_bytes - fresh_bytes) / args.sockets / 1e3,
        "idle_socket_after_turn_kb": (warm_bytes - fresh_bytes) / args.sockets / 1e3,
        "idle_server_cores": window.spent_s.get("server", 0.0) / window.wall_s,
        "foreign_cores": window.spent_s["foreign"] / window.wall_s,
        "connects_per_s": args.sockets / connect_s,
    }


MODES = {
    "throughput": run_throughput,
    "turns": run_throughput,
    "paced": run_paced,
    "idle": run_idle,
    "conversation": run_conversation,
    "held": run_held,
    "waiting": run_waiting,
    "viewers": run_viewers,
    "dashboards": run_dashboards,
    "stalled": run_stalled,
}
CONNECTING_S = 6.0
"""A watched run goes on at least so long before it is measured, so that all viewers are there."""


async def run(args: argparse.Namespace) -> Result:
    """Run one mode and add what went wrong."""
    deltas = {
        "turns": 1,
        "idle": 1,
        "conversation": 1,
        "dashboards": 1,
        "paced": round(args.rate * (args.seconds + args.warm_up_s)),
        "viewers": round(args.rate * (args.seconds + args.warm_up_s + CONNECTING_S)),
    }
    paced = args.mode in ("paced", "viewers")
    turn = Turn(
        urls=tuple(args.url),
        model=args.model,
        deltas=deltas.get(args.mode, args.deltas),
        rate=args.rate if paced else 0,
        stamps=paced,
        per_chunk=1 if paced else args.per_chunk,
        store=args.store,
        repeat=args.mode in ("throughput", "turns"),
    )
    tally = Tally()
    gc.freeze()
    gc.disable()
    result = await MODES[args.mode](args, turn, tally)
    errors = {"errors": tally.errors, "first_error": tally.first_error, "lost_sockets": tally.lost_sockets}
    return {"mode": args.mode, "sockets": args.sockets, "store": args.store, **result, **errors}


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("mode", choices=sorted(MODES))
    parser.add_argument(
        "--url", action="append", required=True, help="http:// with --wire sse, else ws://; again for each node"
    )
    parser.add_argument("--wire", choices=("websocket", "sse"), default="websocket")
    parser.add_argument("--model", default="mock-model")
    parser.add_argument("--sockets", type=int, default=1)
    parser.add_argument("--deltas", type=int, default=200, help="text deltas per turn (throughput)")
    parser.add_argument("--per-chunk", type=int, default=25, help="deltas per HTTP chunk of the upstream")
    parser.add_argument("--rate", type=float, default=50.0, help="deltas per second and stream (paced)")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time")
    parser.add_argument("--warm-up-s", type=float, default=0.5, help="not measured")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="for connecting and last turns")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--leave", action="store_true", help="leave runs that wait with nobody attached (waiting)")
    parser.add_argument("--server-pid", type=int, help="root process whose CPU and memory are read")
    parser.add_argument("--upstream-pid", type=int, help="the mock's process, to see what the rig costs")
    parser.add_argument("--upstream-url", help="the mock's base URL (conversation)")
    parser.add_argument("--turns", type=int, default=1000, help="of a conversation")
    parser.add_argument(
        "--meter", type=meter, action="append", default=[], metavar="NAME=PID", help="another process to read"
    )
    args = parser.parse_args()
    if not {urlsplit(url).hostname for url in args.url} <= LOOPBACK_HOSTS:
        parser.error("the load client talks to this machine only")
    if args.mode in ("idle", "waiting", "conversation") and not args.server_pid:
        parser.error(f"{args.mode} needs --server-pid")
    if args.mode == "conversation" and not args.upstream_url:
        parser.error("conversation needs --upstream-url")
    return args


def main() -> None:
    args = parse_args()
    raise_open_files_limit()
    result = uvloop.run(run(args))
    sys.stdout.buffer.write(orjson.dumps(result) + b"\n")


if __name__ == "__main__":
    main()
