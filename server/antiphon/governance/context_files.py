"""`kind = "file"`: context from text files in a folder of the operator, read anew for each run.

    all.md                         for every run
    <tenant>/all.md                for every run of a tenant
    <tenant>/agents/<agent>.md     for those of one of its agents

In names of files everything but letters, digits and `_.-` is written as `%XX`: the agent `team/writer` reads
`team%2Fwriter.md`.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from urllib.parse import quote

from antiphon.hooks import ContextRequest


class FileSource:
    """One folder. max_bytes: of one file; one that is larger cannot be read at all."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    async def text(self, request: ContextRequest) -> str | None:
        """Raises OSError for a file that is there and cannot be read, ValueError for one that is no UTF-8 text."""
        return await asyncio.to_thread(self._read, request)

    def _read(self, request: ContextRequest) -> str | None:
        home = self._folder / _segment(request.tenant)
        paths = (self._folder / "all.md", home / "all.md", home / "agents" / f"{_segment(request.agent)}.md")
        texts = [text for path in paths if (text := self._read_one(path))]
        return "\n\n".join(texts) or None

    def _read_one(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                data = file.read(self._max_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return ""  # no file can have this name
        if len(data) > self._max_bytes:
            raise ValueError("the file is larger than max_bytes")
        return data.decode().strip()


def _segment(name: str) -> str:
    """A name as one part of a path, never `.` or `..`."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
