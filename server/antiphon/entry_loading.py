"""Python that the operator configured: `package.module:name`, or an entry point of an installed package."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from antiphon.errors import StartupError


def load_entry(kind: str, name: str, entry: str | None, group: str) -> Any:
    """What an entry names; None stands for the entry point `name` of `group`. kind: what it is, for messages.

    Raises StartupError with one line.
    """
    if entry is None:
        found = list(entry_points(group=group, name=name))
        if not found:
            raise StartupError(f"{kind} {name!r}: no installed package has it as an entry point of {group}")
        if len({one.value for one in found}) > 1:
            raise StartupError(f"{kind} {name!r}: several installed packages have it as an entry point of {group}")
    try:
        if entry is None:
            return found[0].load()
        module, _, attribute = entry.partition(":")
        if not attribute:
            raise StartupError(f"{kind} {name!r}: entry must be package.module:name, not {entry!r}")
        return getattr(import_module(module), attribute)
    except StartupError:
        raise
    except (Exception, SystemExit) as error:
        # Whatever the module does while it is imported: the operator gets one line, not a traceback.
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise StartupError(f"{kind} {name!r}: {entry or group} cannot be loaded ({what})") from error
