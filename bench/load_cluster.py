"""Load client for two nodes of a cluster on this machine: the first `--url` is a node's, the second the other's.

    load_cluster.py follow    --url A --url B --sockets 50 --rate 50     streams of A followed on B
    load_cluster.py follow    --url A --url B --sockets 10               the same, as fast as A can
    load_cluster.py adoption  --url A --url B --sockets 100 --streams 20 A is killed: when are its runs taken?
    load_cluster.py reconnect --url A --url B --sockets 10000            A is killed: when are its clients back?

Prints one JSON object. `adoption` and `reconnect` kill the process `--server-pid`.
"""

import argparse
import gc
import sys
from urllib.parse import urlsplit

import orjson
import uvloop
from load import LOOPBACK_HOSTS
from load_adoption import run_adoption
from load_clients import Tally, Turn
from load_follow import run_follow
from load_reconnect import clients_for, run_reconnect
from load_window import Result, meter
from process_meter import open_files_limit, raise_open_files_limit

MODES = {"follow": run_follow, "adoption": run_adoption, "reconnect": run_reconnect}


async def run(args: argparse.Namespace) -> Result:
    """Run one mode and add what went wrong."""
    turn = Turn(
        urls=tuple(args.url),
        model=args.model,
        deltas=round(args.rate * (args.seconds + args.warm_up_s)) if args.rate else args.deltas,
        rate=args.rate,
        stamps=bool(args.rate),
        per_chunk=1 if args.rate else args.per_chunk,
        store=True,
        repeat=not args.rate,
    )
    tally = Tally()
    gc.freeze()
    gc.disable()
    result = await MODES[args.mode](args, turn, tally)
    errors = {"errors": tally.errors, "first_error": tally.first_error, "lost_sockets": tally.lost_sockets}
    return {"mode": args.mode, "sockets": args.sockets, **result, **errors}


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("mode", choices=sorted(MODES))
    parser.add_argument("--url", action="append", required=True, help="ws://, once for each of the two nodes")
    parser.add_argument("--model", default="mock-model")
    parser.add_argument(
        "--sockets", type=int, default=1, help="clients; with `adoption` runs that wait for a tool"
    )
    parser.add_argument("--streams", type=int, default=20, help="runs that are spoken (adoption, reconnect)")
    parser.add_argument("--deltas", type=int, default=200, help="text deltas per turn (follow without a rate)")
    parser.add_argument("--per-chunk", type=int, default=25, help="deltas per HTTP chunk of the upstream")
    parser.add_argument("--rate", type=float, default=0.0, help="deltas per second and stream (follow)")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time (follow)")
    parser.add_argument("--warm-up-s", type=float, default=0.5, help="not measured")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="for each wait")
    parser.add_argument("--redis-url", default="", help="where the leases are (adoption)")
    parser.add_argument("--server-pid", type=int, required=True, help="process of the first node")
    parser.add_argument("--follower-pid", type=int, help="process of the second node")
    parser.add_argument("--upstream-pid", type=int, help="the mock's process")
    parser.add_argument("--meter", type=meter, action="append", default=[], metavar="NAME=PID")
    args = parser.parse_args()
    if len(args.url) != 2 or not {urlsplit(url).hostname for url in args.url} <= LOOPBACK_HOSTS:
        parser.error("two nodes are needed, and both on this machine")
    if args.follower_pid:
        args.meter.append(("follower", args.follower_pid))
    return args


def main() -> None:
    args = parse_args()
    raise_open_files_limit()
    if args.mode == "reconnect":
        args.sockets = clients_for(args.sockets, open_files_limit())
    result = uvloop.run(run(args))
    sys.stdout.buffer.write(orjson.dumps(result) + b"\n")


if __name__ == "__main__":
    main()
