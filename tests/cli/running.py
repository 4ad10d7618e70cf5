"""The `antiphon` command as a process, its environment free of what the developer has set."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.forked import SERVER

WAIT_S = 60.0
"""The first one waits for the imports of all."""


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
    with tempfile.TemporaryFile() as errors:
        async with asyncio.timeout(WAIT_S):
            process = await SERVER.start(["-m", "antiphon", *args], environment(home, env), errors, cwd=home)
            try:
                out, status = await process.rest(), await process.wait()
            finally:
                process.kill()
                process.close()
        errors.seek(0)
        return Finished(status, out.decode(), errors.read().decode())
