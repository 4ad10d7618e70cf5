"""Log lines: in order, none lost, trouble at once, the rest together."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import threading

from antiphon.cli.log_lines import LineWriter


class Counted(io.BytesIO):
    """writes: how often something was written. written: set by the first."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.written = asyncio.Event()

    def write(self, data: object, /) -> int:
        self.writes += 1
        self.written.set()
        return super().write(data)  # type: ignore[arg-type]


def test_without_an_event_loop_lines_are_written_at_once() -> None:
    file = Counted()
    lines = LineWriter(file)
    lines.info(b"one")
    assert file.getvalue() == b"one\n"


async def test_information_is_written_together_and_soon() -> None:
    file = Counted()
    lines = LineWriter(file)
    for n in range(100):
        lines.info(b"%d" % n)
    assert file.writes == 0
    await asyncio.wait_for(file.written.wait(), 30)
    assert file.getvalue() == b"".join(b"%d\n" % n for n in range(100))
    assert file.writes == 1


async def test_trouble_is_written_at_once_behind_what_waited() -> None:
    file = Counted()
    lines = LineWriter(file)
    lines.info(b"before")
    lines.warning(b"trouble")
    assert file.getvalue() == b"before\ntrouble\n"


async def test_much_is_not_kept() -> None:
    file = Counted()
    lines = LineWriter(file)
    for _ in range(20):
        lines.info(b"x" * 10_000)
    assert len(file.getvalue()) >= 140_000


def test_a_loop_that_is_gone_leaves_nothing_behind() -> None:
    file = Counted()
    lines = LineWriter(file)

    async def say(line: bytes) -> None:
        lines.info(line)

    asyncio.run(say(b"one"))
    lines.info(b"two")
    assert file.getvalue() == b"one\ntwo\n"


async def test_lines_of_threads_are_neither_lost_nor_torn() -> None:
    file = Counted()
    lines = LineWriter(file)
    threads = [threading.Thread(target=lambda: [lines.info(b"t" * 50) for _ in range(500)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(500):
        lines.info(b"m" * 50)
        await asyncio.sleep(0)
    for thread in threads:
        thread.join()
    lines.flush()
    assert sorted(file.getvalue().split()) == [b"m" * 50] * 500 + [b"t" * 50] * 1500


def test_what_waits_is_written_when_the_process_ends() -> None:
    program = (
        "import asyncio, sys; from antiphon.cli.log_lines import LineWriter\n"
        "async def main(): LineWriter(sys.stderr.buffer).info(b'last words')\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert done.stderr == b"last words\n"
