"""The server's own source text, parsed once for all architecture tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One module. name: dotted, without the package in front (`core.lanes`); the package itself is empty."""

    path: Path
    name: str
    tree: ast.Module

    @property
    def layer(self) -> str:
        """The folder below the package, or the module itself where it stands at the top."""
        return self.name.split(".")[0]

    def imports(self) -> Iterator[str]:
        """Full names of what is imported, anywhere in the file: `antiphon.core.lanes`, `orjson`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}: imports are written in full"
                base = node.module or ""
                # `from antiphon.store import records` names the module `records` as much as the folder.
                modules = [f"{base}.{alias.name}" for alias in node.names]
                yield from ([m for m in modules if is_module(m)] or [base])


def is_module(name: str) -> bool:
    """Whether one of our two packages has this module."""
    package, _, rest = name.partition(".")
    folder = {"antiphon": ROOT / "server", "antiphon_protocol": ROOT / "protocol"}.get(package)
    if folder is None:
        return False
    path = folder / package / rest.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def sources(package: str = "antiphon") -> tuple[Source, ...]:
    """Every module of one of our packages."""
    base = ROOT / ("server" if package == "antiphon" else "protocol") / package
    found = []
    for path in sorted(base.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found.append(Source(path, name, ast.parse(path.read_text(encoding="utf-8"), str(path))))
    return tuple(found)
