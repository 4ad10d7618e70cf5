"""Sockets that came without credentials, as those of pages do: their first frame has to bring them.

Nothing of a session is built before: a socket that never says who it is costs little and goes soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from antiphon.core.json_input import parse_object
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, RequestError, Unauthorized
from antiphon.ports import Authenticator, Credentials
from antiphon.session.frames import command_error, error_frame
from antiphon.session.socket import Socket, send_json
from antiphon.settings.identity import IdentitySettings

Receive = Callable[[], Awaitable[str | bytes | None]]

FIRST_FRAME_BYTES = 1024 * 1024
"""Larger messages close the socket (1009) until it is authenticated."""

_DEPTH = 64
_CLOSES = {401: 4500, 403: 4502, 503: 1013}
_CLOSE_CODES = {"rate_limited": 4029, "too_many_connections": 4503}
"""Closes of a socket whose first command was refused, by status or code (PROTOCOL 13)."""
_BY_COMMAND = frozenset({"antiphon:auth", "antiphon:hello"})


@dataclass(frozen=True, slots=True)
class Entered:
    """again: the frame, where it asks for more than to be let in."""

    principal: Principal
    again: str | None


class Entrance:
    """Counts those that wait on this node."""

    def __init__(self, authenticator: Authenticator, settings: IdentitySettings) -> None:
        self._authenticator = authenticator
        self._settings = settings
        self.waiting = 0

    def claim(self) -> None:
        """One more is to be accepted; `leave` follows. Raises RequestError `too_many_connections`."""
        if self.waiting >= self._settings.max_unauthenticated:
            raise RequestError(
                "Too many sockets have not shown credentials yet; send them with the upgrade, or come back later.",
                code="too_many_connections",
                headers={"x-should-retry": "false"},
            )
        self.waiting += 1

    def leave(self) -> None:
        """One has shown credentials, or is gone."""
        self.waiting -= 1

    async def enter(
        self,
        socket: Socket,
        receive: Receive,
        origin: str | None,
        address: str,
        admit: Callable[[Principal], None],
    ) -> Entered | None:
        """Wait for the first frame; None if it let nobody in, and the socket is closed or gone.

        origin, address: of the client. admit: raises RequestError if this principal has too many sockets.
        """
        try:
            async with asyncio.timeout(self._settings.auth_within_s):
                message = await receive()
        except TimeoutError:
            _turn_out(socket, _required("No credentials came in time."))
            return None
        if message is None:
            return None
        kind, frame = _read(message)
        try:
            credentials = _credentials(kind, frame, origin, address)
            async with asyncio.timeout(self._settings.auth_within_s):
                principal = await self._authenticator.authenticate(credentials)
            admit(principal)
        except TimeoutError:
            _turn_out(socket, _required("Your credentials could not be checked in time; try again."))
            return None
        except AntiphonError as error:
            _turn_out(socket, error, frame if kind in _BY_COMMAND else None)
            return None
        if kind == "antiphon:auth":
            send_json(socket, accepted(frame.get("id"), principal))
            return Entered(principal, None)
        assert isinstance(message, str)
        return Entered(principal, message)


def accepted(command_id: Any, principal: Principal) -> dict[str, Any]:
    """The answer to `antiphon:auth`."""
    reply = {"type": "antiphon:ok", "id": command_id}
    return reply | ({"token_expires_at": principal.expires_at} if principal.expires_at is not None else {})


def _read(message: str | bytes) -> tuple[str, dict[str, Any]]:
    """The type and the frame; both empty for what is none."""
    if isinstance(message, bytes):
        return "", {}
    try:
        frame = parse_object(message, _DEPTH)
    except RequestError:
        return "", {}
    kind = frame.get("type")
    return (kind, frame) if isinstance(kind, str) else ("", frame)


def _credentials(kind: str, frame: dict[str, Any], origin: str | None, address: str) -> Credentials:
    """Raises Unauthorized, RequestError."""
    if kind not in _BY_COMMAND:
        raise _required("The first frame here is antiphon:auth or an antiphon:hello with a token.")
    command_id = frame.get("id")
    if not isinstance(command_id, str) or not 1 <= len(command_id) <= 256:
        raise RequestError("A command has an id of 1 to 256 characters.", code="invalid_command", param="id")
    token, ticket = frame.get("token"), frame.get("ticket") if kind == "antiphon:auth" else None
    given = [one for one in (token, ticket) if one is not None]
    if len(given) > 1 or not all(isinstance(one, str) and one for one in given):
        raise RequestError("Send one of token and ticket, as text.", code="invalid_command", param="token")
    if not given:
        raise _required(f"This {kind} brings no {'token' if kind == 'antiphon:hello' else 'token or ticket'}.")
    return Credentials(token, ticket, origin, address)


def _required(message: str) -> Unauthorized:
    return Unauthorized(message, code="authentication_required")


def _turn_out(socket: Socket, error: AntiphonError, command: dict[str, Any] | None = None) -> None:
    """Say why and close. command: the one that is answered, where the client speaks the extension."""
    if command is None:
        send_json(socket, error_frame(error))
        socket.close(1008, error.code)
        return
    command_id = command.get("id")
    send_json(socket, command_error(command_id if isinstance(command_id, str) else None, error))
    socket.close(_CLOSE_CODES.get(error.code) or _CLOSES.get(error.status, 4501), error.code)
