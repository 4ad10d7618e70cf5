"""What all tests share: the last line names what was skipped, and CI takes no skip for an answer."""

from __future__ import annotations

import functools
import os

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.support.postgres",)

# The machine is shared by parallel workers: a slow example says nothing about the code.
settings.register_profile("antiphon", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("antiphon")

# Each client reads the machine's certificate authorities anew, 50 ms of computing; once is enough for tests.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

SLOW = ("codex", "model")
"""Markers of suites that run only where they are named: `make test-codex`, `make test-model`."""

LONG = ("bench", "browser", "chaos", "clients")
"""Markers of tests that take many seconds each."""

_SKIPPED = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow suites in a run whose `-m` does not speak of them, and let long tests begin early."""
    asked = config.getoption("markexpr") or ""
    left_out = [
        item for item in items if any(item.get_closest_marker(slow) and slow not in asked for slow in SLOW)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items[:] = _dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """In an order in which no worker is left alone with long tests at the end.

    `--dist worksteal` gives each worker a part of the list, in order, and takes from the ends of parts for those
    that have nothing left. Long tests stand at the beginning of every second part: browsers in all would be too
    many at once.
    """
    long = [item for item in items if _is_long(item)]
    short = [item for item in items if not _is_long(item)]
    hands = (workers + 1) // 2
    dealt: list[pytest.Item] = []
    for part in range(workers):
        if part % 2 == 0:
            dealt += long[part // 2 :: hands]
        dealt += short[part * len(short) // workers : (part + 1) * len(short) // workers]
    return dealt


def _is_long(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in LONG)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    config.stash[_SKIPPED] = [f"{report.nodeid.split('::')[-1]} ({_reason(report)})" for report in reports]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    names = config.stash.get(_SKIPPED, [])
    if names:
        print(f"skipped: {', '.join(sorted(names))}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """In CI everything a test needs is installed: a skip there is a failure."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
