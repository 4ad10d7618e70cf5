"""Held calls over HTTP: what `response.inject` and the claims of the extension do on a socket."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.faults import refusal
from antiphon.core.held_calls import Sender
from antiphon.core.participants import Participant
from antiphon.errors import RequestError
from antiphon.ports import Ids
from antiphon.runs.engine import Engine
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.replies import Json, error_response
from antiphon_protocol.bodies import CallToClaim, ClaimToKeep

Model = TypeVar("Model", CallToClaim, ClaimToKeep)

INSTANCE = "x-antiphon-instance"
"""Names the client over several requests, as `instance_id` of a hello does."""


class HeldApi:
    """The endpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        one = "/v1/responses/{response_id}"
        return [
            Route(f"{one}/inject", self.inject, methods=["POST"]),
            Route(f"{one}/claim", self.claim, methods=["POST"]),
            Route(f"{one}/renew", self.renew, methods=["POST"]),
            Route(f"{one}/release", self.release, methods=["POST"]),
        ]

    async def inject(self, request: Request) -> Response:
        response_id = request.path_params["response_id"]
        body = await read_object(request, self._engine.settings.limits)
        given = body.get("input")
        if not isinstance(given, list):
            raise RequestError("An inject needs input: a list of items.", param="input")
        caller = caller_of(request, self._engine.ids)
        sender = Sender(caller.principal, caller.connection, caller.instance)
        injected = await self._engine.reach.inject(response_id, given, sender, principal_of(request))
        if injected.error is not None:
            return error_response(injected.error, input=given)
        reply: dict[str, Any] = {
            "object": "response.inject",
            "response_id": response_id,
            "sequence_number": injected.sequence_number,
        }
        return Json(reply | ({"duplicate": True} if injected.duplicate else {}))

    async def claim(self, request: Request) -> Response:
        sender, response_id = self._claimant(request)
        wanted = await self._read(request, CallToClaim)
        claim = await self._engine.reach.claim(
            response_id,
            wanted.call_id,
            sender,
            principal_of(request),
            lease_ms=wanted.lease_ms,
            fence=wanted.fence,
        )
        return _claimed(response_id, wanted.call_id, claim.fence, claim.expires_at)

    async def renew(self, request: Request) -> Response:
        sender, response_id = self._claimant(request)
        kept = await self._read(request, ClaimToKeep)
        claim = await self._engine.reach.renew(
            response_id,
            kept.call_id,
            sender,
            principal_of(request),
            lease_ms=kept.lease_ms,
            fence=kept.fence,
        )
        return _claimed(response_id, kept.call_id, claim.fence, claim.expires_at)

    async def release(self, request: Request) -> Response:
        sender, response_id = self._claimant(request)
        left = await self._read(request, ClaimToKeep)
        await self._engine.reach.release(
            response_id, left.call_id, sender, principal_of(request), fence=left.fence
        )
        return _claimed(response_id, left.call_id, left.fence, None)

    def _claimant(self, request: Request) -> tuple[Sender, str]:
        """A claim lasts over several requests, so its holder needs a name."""
        caller = caller_of(request, self._engine.ids)
        if caller.instance is None:
            raise RequestError("A claim needs the header X-Antiphon-Instance.", param="X-Antiphon-Instance")
        return Sender(caller.principal, caller.connection, caller.instance), request.path_params["response_id"]

    async def _read(self, request: Request, model: type[Model]) -> Model:
        body = await read_object(request, self._engine.settings.limits)
        try:
            return model.model_validate(body)
        except ValidationError as error:
            raise refusal(error, body) from error


def caller_of(request: Request, ids: Ids) -> Participant:
    """Who makes this request, as a participant of a run. Raises RequestError for a bad instance header."""
    instance = request.headers.get(INSTANCE)
    if instance is not None and not 1 <= len(instance) <= 256:
        raise RequestError("X-Antiphon-Instance is 1 to 256 characters.", param="X-Antiphon-Instance")
    principal = principal_of(request)
    return Participant(ids.mint("conn"), principal.id, principal.role, instance=instance)


def _claimed(response_id: str, call_id: str, fence: int, expires_at: float | None) -> Response:
    claim = {"call_id": call_id, "fence": fence, "expires_at": expires_at}
    return Json({"object": "response.claim", "response_id": response_id, **claim})
