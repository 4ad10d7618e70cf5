"""What the plugin and those who run pytest with it agree on."""

from __future__ import annotations

VARIABLE = "ANTIPHON_TEST_FAULT"
"""Environment variable with the name of the fault to plant."""
NOT_PLANTED = 70
"""Exit status of pytest: no test imported the faulty module."""
