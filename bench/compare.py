"""Two revisions of our server side by side, and the ratio new / base of every figure.

    compare.py HEAD~3                                   the working tree beside a revision
    compare.py v0.2 --new v0.3 --repeats 5 --only throughput_10,turns_1_unstored

Both trees are written into a temporary folder, so that edits meanwhile change nothing, and are started the same
way, on the packages that are installed. Where the revisions lock other packages, this is said.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from figures import OURS
from processes import BenchError
from servers import ROOT, Antiphon, Server, find_program, first_line, source_revision
from side_by_side import RESULTS_DIR, add_size_options, measure_and_publish

BASE = "base"
PARTS = ("server", "protocol", "bench", "pyproject.toml", "requirements.lock")
"""Of a tree: what runs, what looks inside it, and what says on which packages."""
WORKING_TREE = "the working tree"
TREE_TIMEOUT_S = 60.0


def write_tree(revision: str, folder: Path) -> Path:
    """Write a revision, or the working tree, into a folder, compiled. Raises BenchError."""
    folder.mkdir(parents=True)
    if revision == WORKING_TREE:
        ignored = shutil.ignore_patterns("__pycache__", "results")
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=ignored)
            elif source.is_file():
                shutil.copy(source, folder / part)
    else:
        archive = folder.with_suffix(".tar")
        _run("git", "-C", ROOT, "archive", "--output", archive, revision, *_parts_of(revision))
        shutil.unpack_archive(archive, folder)
    _run(sys.executable, "-m", "compileall", "-q", folder / "server", folder / "protocol")
    return folder


def _parts_of(revision: str) -> list[str]:
    """The parts a revision has."""
    return _run("git", "-C", ROOT, "ls-tree", "--name-only", revision, "--", *PARTS).split()


def _run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=TREE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise BenchError(f"{command[0]} said: {done.stderr.strip()[:400]}")
    return done.stdout


def other_packages(new: Path, base: Path) -> list[str]:
    """A line if the trees do not lock the same packages: both run on those that are installed."""
    locks = [path.read_text() if (path := tree / "requirements.lock").is_file() else "" for tree in (new, base)]
    if locks[0] == locks[1]:
        return []
    return ["packages: the revisions lock different ones; both ran on those that are installed here"]


def revisions(args: argparse.Namespace, work_dir: Path) -> tuple[Sequence[Server], list[str]]:
    """The new tree, which ratios begin with, and the base."""
    program = args.antiphon or find_program("antiphon")
    if program is None:
        raise SystemExit("no `antiphon` command found: run `make run` once, or give --antiphon PATH")
    servers = []
    for name, revision in ((OURS, args.new), (BASE, args.base)):
        try:
            tree = write_tree(revision, work_dir / "trees" / name)
        except BenchError as error:
            raise SystemExit(f"{revision}: {error}") from None
        shown = source_revision() if revision == WORKING_TREE else _described(revision)
        servers.append(Antiphon(program, tuple(args.set), name, source=tree, revision=shown))
    return servers, other_packages(work_dir / "trees" / OURS, work_dir / "trees" / BASE)


def _described(revision: str) -> str:
    return first_line("git", "describe", "--always", "--abbrev=10", revision)


def parse_args() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("base", help="a revision of git")
    parser.add_argument("--new", default=WORKING_TREE, help="a revision of git (default: the working tree)")
    add_size_options(parser)
    parser.add_argument("--json", type=Path, help="where to write (default: bench/results/compare-latest.json)")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    latest = RESULTS_DIR / "compare-latest.json"
    measure_and_publish(args, lambda work_dir: revisions(args, work_dir), latest)


if __name__ == "__main__":
    main()
