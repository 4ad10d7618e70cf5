"""Client scripts end, one way or the other, and what they said is shown."""

from __future__ import annotations

import sys

import pytest

from tests.support.sdk_processes import missing, run_process, run_script


async def test_the_last_line_is_the_result() -> None:
    result = await run_script([sys.executable, "-c", "print('noise'); print('{\"a\": 1}')"])
    assert result == {"a": 1}


async def test_a_failure_shows_what_the_script_said() -> None:
    with pytest.raises(AssertionError, match="it went wrong"):
        await run_script([sys.executable, "-c", "raise SystemExit('it went wrong')"])


async def test_a_script_that_hangs_is_ended_together_with_its_children() -> None:
    child = "import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', 'input()'])"
    hang = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE)"
    waits = "import threading; threading.Event().wait()"
    for code in (waits, hang.replace("input()", waits)):
        with pytest.raises(AssertionError, match=r"did not end within 1\.0 s"):
            await run_process([sys.executable, "-c", code], wait_s=1.0)


async def test_keys_and_proxies_of_the_caller_do_not_reach_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTPS_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "x")
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if v == 'x'}))"
    assert await run_script([sys.executable, "-c", code]) == {}


def test_what_is_missing_is_skipped_at_home_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="node is missing; install it"):
        missing("node", "install it")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="node is missing; install it"):
        missing("node", "install it")
