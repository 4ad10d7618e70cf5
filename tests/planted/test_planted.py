"""Planted faults are caught: tests that pass on the server fail on one with a fault (`make test-planted`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planted.faults import FAULTS, SOURCES
from tests.planted.plugin_names import NOT_PLANTED, VARIABLE

TESTS = Path(__file__).parent.parent
ONE_FAULT_S = 300.0


@pytest.mark.parametrize("name", FAULTS)
def test_there_is_one_place_for_each_fault_and_tests_that_should_catch_it(name: str) -> None:
    fault = FAULTS[name]
    text = (SOURCES / fault.file).read_text()
    compile(fault.plant(text), fault.file, "exec")
    assert fault.tests and all((TESTS / test.partition("::")[0]).exists() for test in fault.tests)


def test_there_are_faults_of_every_kind() -> None:
    assert len(FAULTS) >= 24


@pytest.mark.planted
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, "-p", "tests.planted.plugin", *(str(TESTS / test) for test in FAULTS[name].tests)],
        env={**os.environ, VARIABLE: name},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=ONE_FAULT_S,
    )
    assert ended.returncode != NOT_PLANTED, "the tests never used what is faulty"
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout[-3000:] + ended.stderr[-1000:]
