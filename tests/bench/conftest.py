"""The bench's scripts lie flat in a folder that they find by being started there; so do tests that look inside."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
if str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))
