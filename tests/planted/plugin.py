"""A pytest plugin that plants one fault of `faults.py` in the server as it is imported: nothing on disk changes.

ANTIPHON_TEST_FAULT=a-number-is-skipped python -m pytest -p tests.planted.plugin tests/session
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from tests.planted.faults import FAULTS, Fault
from tests.planted.plugin_names import NOT_PLANTED, VARIABLE


class _Loader(SourceFileLoader):
    """Compiles the text with the fault in it, whatever is in the cache."""

    def __init__(self, name: str, path: str, fault: Fault) -> None:
        super().__init__(name, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(self._fault.plant(self.get_data(path).decode()), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.planted = False

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._fault)
            self.planted = True
        return spec


_fault = FAULTS[os.environ[VARIABLE]]
if _fault.module in sys.modules:
    raise RuntimeError(f"{_fault.module} was imported before a fault could be planted in it")
_finder = _Finder(_fault)
sys.meta_path.insert(0, _finder)


def pytest_sessionfinish(session: Any) -> None:
    if not _finder.planted:
        session.exitstatus = NOT_PLANTED
