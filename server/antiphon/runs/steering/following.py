"""What follows a steered run, kept with its terminal until it has begun: a crash between the two loses nothing."""

from __future__ import annotations

import orjson
import structlog

from antiphon.core.create_request import parse_create
from antiphon.core.model_body import without_credentials
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, RequestError
from antiphon.ports import Bus
from antiphon.runs.run import Create, Run
from antiphon.runs.service import RunService
from antiphon.store import checkpoints
from antiphon.store.responses import Following, ResponseReader
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_BEGINNING_S = 60.0
"""How long one node tries to begin a successor before another one may."""


class Successors:
    """Successors that were announced and have no row yet."""

    def __init__(self, reader: ResponseReader, writer: Writer, bus: Bus, service: RunService) -> None:
        self._reader = reader
        self._bus = bus
        self._writer = writer
        self._service = service

    async def give_up(self, target: str) -> None:
        """Nothing follows this run any more. Raises StorageError."""
        await self._writer.submit(lambda connection: checkpoints.forget(connection, target))

    async def begin_again(self, ended_before: float | None = None) -> None:
        """Start those that a dead process had announced and not begun. Raises StorageError.

        ended_before: only those whose target ended before this time; its owner may be about to begin the others.
        """
        for following in await self._reader.following(ended_before):
            try:
                if await self._is_ours(following):
                    await self._begin(following)
            except RequestError as error:
                log.warning("successor_given_up", response_id=following.target, error=str(error))
                await self.give_up(following.target)
            except (AntiphonError, ValueError, TypeError, KeyError) as error:
                log.warning("successor_not_begun", response_id=following.target, error=str(error))

    async def _is_ours(self, following: Following) -> bool:
        """Whether no other node is beginning it now."""
        if self._bus.alone:
            return True
        place = f"antiphon:v1:successor:{{{following.target}}}"
        return await self._bus.put_if_absent(place, self._bus.node.encode(), _BEGINNING_S) is None

    async def _begin(self, following: Following) -> None:
        kept = orjson.loads(following.payload)
        principal = Principal(following.creator, following.tenant, kept["role"], kept["tier"])
        raw = kept["create"]
        create = Create(parse_create(raw), raw, kept["origin"], instance=kept["instance"])
        await self._service.start(create, principal, response_id=kept["successor"])
        log.info("successor_begun", response_id=kept["successor"], target=following.target)


def keep_successor(run: Run, create: Create) -> bytes | None:
    """The create that follows a run, as another process could start it; None if none could."""
    if not run.stored or not run.resumable:
        return None
    return orjson.dumps(
        {
            "successor": run.successor_id,
            "create": without_credentials(create.raw),
            "origin": create.origin,
            "instance": create.instance,
            "role": run.principal.role,
            "tier": run.principal.tier,
        }
    )
