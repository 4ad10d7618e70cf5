"""The bench: our server and every peer that is there, side by side on loopback.

    run.py                     3 repeats, about 6 minutes each with all peers
    run.py --repeats 5         the run for figures that are published
    run.py --quick             one short repeat, about 3 minutes with all peers
    run.py --only throughput_10,paced --servers antiphon

Peers: the Rust gateway `agentic-server`, and two that only send prepared frames, `echo` and `c-sender`. Within a
repeat every measure runs on one server and then on the others, in turns who is first; each repeat starts fresh
servers with an empty data folder. Every process started here is ended here, also on Ctrl-C.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from figures import ECHO, GATEWAY, OURS, SENDER
from servers import AgenticServer, Antiphon, Echo, Sender, Server, find_program
from side_by_side import RESULTS_DIR, add_size_options, measure_and_publish

ALL = (OURS, GATEWAY, ECHO, SENDER)


def choose_servers(args: argparse.Namespace) -> tuple[Sequence[Server], list[str]]:
    """Ours first, so that ratios are ours / theirs; peers where they are there. And what is not, and why."""
    wanted = args.servers.split(",") if args.servers else ALL
    if unknown := set(wanted) - set(ALL):
        raise SystemExit(f"--servers knows {', '.join(ALL)}, not {', '.join(sorted(unknown))}")
    program = args.antiphon or find_program("antiphon")
    if program is None:
        raise SystemExit("no `antiphon` command found: run `make run` once, or give --antiphon PATH")
    ours = Antiphon(program, tuple(args.set))
    gateway = args.agentic_server or find_program("agentic-server")
    compiler = shutil.which("cc")
    peers: dict[str, Server | str] = {
        OURS: ours,
        GATEWAY: AgenticServer(gateway) if gateway else "not installed, see requirements.txt",
        ECHO: Echo(ours.python),
        SENDER: Sender(Path(compiler)) if compiler else "there is no C compiler `cc`",
    }
    found = [peer for name in ALL if name in wanted and not isinstance(peer := peers[name], str)]
    left_out = [f"{name}: {peer}" for name in wanted if isinstance(peer := peers[name], str)]
    if not found:
        raise SystemExit(f"nothing to measure: {'; '.join(left_out)}")
    return found, left_out


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add_size_options(parser)
    parser.add_argument("--servers", help=f"comma-separated: {', '.join(ALL)} (default: all that are there)")
    parser.add_argument("--agentic-server", type=Path, help="path of the gateway's binary")
    parser.add_argument("--json", type=Path, help="where to write (default: bench/results/, and latest.json)")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    measure_and_publish(args, lambda _: choose_servers(args), RESULTS_DIR / "latest.json")


if __name__ == "__main__":
    main()
