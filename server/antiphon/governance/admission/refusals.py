"""What a caller is told while nothing may start. The text names no tenant."""

from __future__ import annotations

from antiphon.core.quotas import FINAL
from antiphon.errors import AntiphonError


def refuse_held(*, everybody: bool) -> AntiphonError:
    """everybody: an emergency stop; else the caller's own tenant is paused."""
    if everybody:
        message = "An administrator has stopped all runs of this server."
        return AntiphonError(message, code="emergency_stop", headers=dict(FINAL))
    return AntiphonError("This tenant is paused.", code="tenant_paused", headers=dict(FINAL))
