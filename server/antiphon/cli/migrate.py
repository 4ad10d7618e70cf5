"""`antiphon migrate`: bring the tables up to date without starting a server."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from antiphon.settings import Settings
from antiphon.store.opening import open_store


async def migrate(settings: Settings, console: Console) -> None:
    """Run the migrations that are missing and say what was done. Raises StartupError."""
    store = open_store(settings)
    try:
        done = await store.prepare()
    finally:
        await store.aclose()
    if done.before == done.after:
        console.print(f"{escape(store.place)}: the schema is {done.after}, nothing to do", soft_wrap=True)
    else:
        console.print(f"{escape(store.place)}: schema {done.before or 'empty'} -> {done.after}", soft_wrap=True)
