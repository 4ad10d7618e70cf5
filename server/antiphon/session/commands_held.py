"""The commands around held calls: claim, renew, release, presence (PROTOCOL 10.9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from antiphon.core.held_calls import Claim
from antiphon.errors import RequestError
from antiphon.runs.engine import Engine
from antiphon.session.caller import Caller
from antiphon.session.presence import Presence
from antiphon_protocol import extension as wire


class HeldCommands:
    """Handlers of one connection; each gives the reply."""

    def __init__(self, engine: Engine, caller: Caller, presence: Presence) -> None:
        self._reach = engine.reach
        self._caller = caller
        self._presence = presence

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[dict[str, Any] | None]]]:
        return {
            "antiphon:claim": self._claim,
            "antiphon:renew": self._renew,
            "antiphon:release": self._release,
            "antiphon:presence": self._show,
        }

    async def _claim(self, command: wire.ClaimCall) -> dict[str, Any]:
        claim = await self._reach.claim(
            command.response_id,
            command.call_id,
            self._presence.sender,
            self._caller.principal,
            lease_ms=command.lease_ms,
            fence=command.fence,
        )
        return _claimed(command.id, claim)

    async def _renew(self, command: wire.RenewClaim) -> dict[str, Any]:
        claim = await self._reach.renew(
            command.response_id,
            command.call_id,
            self._presence.sender,
            self._caller.principal,
            lease_ms=command.lease_ms,
            fence=command.fence,
        )
        return _claimed(command.id, claim)

    async def _release(self, command: wire.ReleaseClaim) -> dict[str, Any]:
        await self._reach.release(
            command.response_id,
            command.call_id,
            self._presence.sender,
            self._caller.principal,
            fence=command.fence,
        )
        return {"type": "antiphon:ok", "id": command.id}

    async def _show(self, command: wire.ShowPresence) -> dict[str, Any]:
        if (command.response_id is None) == (command.conversation_id is None):
            raise RequestError(
                "Name either response_id or conversation_id.", code="invalid_command", param="response_id"
            )
        self._presence.show(command.response_id, command.conversation_id, command.state, command.label)
        return {"type": "antiphon:ok", "id": command.id}


def _claimed(command_id: str, claim: Claim) -> dict[str, Any]:
    return {"type": "antiphon:ok", "id": command_id, "fence": claim.fence, "expires_at": claim.expires_at}
