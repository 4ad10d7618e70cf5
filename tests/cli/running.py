"""The `antiphon` command as a process, its environment free of what the developer has set."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

WAIT_S = 30.0


@dataclass(frozen=True)
class Finished:
    status: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Standard error in one line, however the terminal wrapped it."""
        return " ".join(self.err.split())


def environment(home: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
    return {**kept, "HOME": str(home), "COLUMNS": "300", "NO_COLOR": "1", **(env or {})}


async def antiphon(home: Path, *args: str, env: dict[str, str] | None = None) -> Finished:
    """Run a command that ends by itself, in the folder `home`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antiphon",
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(home, env),
        cwd=home,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())
