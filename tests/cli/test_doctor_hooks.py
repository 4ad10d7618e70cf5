"""`antiphon doctor` on extensions in Python: each is loaded, none is called."""

from __future__ import annotations

import socket
from typing import Any

from antiphon.cli.doctor_hooks import hook_checks
from antiphon.errors import AntiphonError
from antiphon.settings import Settings

HOME = "tests.hooks.sample_hooks"


async def found(**settings: Any) -> dict[str, tuple[bool, str]]:
    """Check to whether it passed, and its detail."""
    results: dict[str, tuple[bool, str]] = {}
    for name, check in hook_checks(Settings(**settings)):
        try:
            results[name] = (True, await check())
        except (AntiphonError, OSError) as error:
            results[name] = (False, str(error))
    return results


async def test_every_extension_that_can_be_loaded_is_ok() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/context"
        results = await found(
            middleware=[{"name": "pass", "entry": f"{HOME}:passing"}],
            context=[
                {"name": "facts", "kind": "python", "entry": f"{HOME}:FACTS"},
                {"name": "files", "kind": "file"},
                {"name": "memory", "kind": "http", "url": url},
            ],
            observer=[{"name": "note", "entry": f"{HOME}:note"}],
            skill=[{"name": "count", "entry": f"{HOME}:counting"}],
        )
    assert all(passed for passed, _ in results.values()), results
    names = ["middleware pass", "context facts", "context files", "context memory", "observer note", "skill count"]
    assert list(results) == names


async def test_every_one_that_cannot_is_a_failed_check_of_its_own_that_says_why() -> None:
    results = await found(
        middleware=[{"name": "gone", "entry": "no.such:thing"}, {"name": "pass", "entry": f"{HOME}:passing"}],
        context=[{"name": "memory", "kind": "http", "url": "http://127.0.0.1:1/"}],
        skill=[{"name": "count"}],
    )
    assert [passed for passed, _ in results.values()] == [False, True, False, False]
    assert "cannot be loaded" in results["middleware gone"][1]
    assert "antiphon.skills" in results["skill count"][1]
