"""Four ways to call extensions (`events.py` says which event goes which way). What does not fit raises, always."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from antiphon.errors import HookError
from antiphon.governance.hooks.calling import Calls, Failure, place_of
from antiphon.governance.hooks.emitting import Outbox
from antiphon.governance.hooks.events import EVENTS, IllegalDispatch, check
from antiphon.hooks import RunEvent
from antiphon.settings.hooks import HooksSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One handler of one event. timeout_s: of one call; None where nobody waits for it.

    required: what waits for the event fails with it.
    """

    name: str
    handler: Callable[..., Awaitable[Any]]
    timeout_s: float
    required: bool = False


class Dispatcher:
    """The handlers of all events."""

    def __init__(self, settings: HooksSettings) -> None:
        self._settings = settings
        self._handlers: dict[str, list[Subscription]] = {}
        self._outboxes: dict[str, Outbox] = {}
        self.calls = Calls()

    def subscribe(
        self,
        event: str,
        handler: Callable[..., Awaitable[Any]],
        *,
        name: str,
        timeout_s: float = 2.0,
        required: bool = False,
    ) -> None:
        """Have an async function called. name: of the extension, for the log. Raises IllegalDispatch."""
        if event not in EVENTS:
            raise IllegalDispatch(f"there is no event {event!r}; there are {', '.join(EVENTS)}")
        if not is_async(handler):
            raise IllegalDispatch(f"a handler of {event} has to be an async function")
        self._handlers.setdefault(event, []).append(Subscription(name, handler, timeout_s, required))
        if EVENTS[event].mode == "emit" and name not in self._outboxes:
            limits = self._settings
            self._outboxes[name] = Outbox(
                name, self.calls, limit=limits.emit_pending, timeout_s=limits.emit_timeout_s
            )

    def listens(self, event: str) -> bool:
        """Whether anybody hears this event."""
        return event in self._handlers

    async def parallel(self, event: str, payload: Any) -> tuple[Failure, ...]:
        """Call all handlers at once and wait for each, at most its time. Gives, and logs, all that failed."""
        check(event, "parallel", payload)
        made = await asyncio.gather(*(self._told(event, one, payload) for one in self._handlers.get(event, ())))
        return tuple(failure for failure in made if failure is not None)

    async def bail(self, event: str, payload: Any) -> Any:
        """Ask one handler after the other; gives the first answer that is not None. Raises HookError."""
        check(event, "bail", payload)
        for one in self._handlers.get(event, ()):
            try:
                answer = await self.calls.within(one.handler(payload), one.timeout_s, f"{event} {one.name}")
            except Exception as error:
                log.error("hook_failed", hook=one.name, event_name=event, error=place_of(error))
                raise HookError("An extension of this server failed.") from error
            if answer is not None:
                return answer
        return None

    def emit(self, event: str, payload: RunEvent) -> None:
        """Tell all handlers, soon. Returns at once, whatever they do."""
        check(event, "emit", payload)
        for one in self._handlers.get(event, ()):
            self._outboxes[one.name].put(payload.run_id, one.handler, payload)

    def waterfall(self, event: str, payload: Any) -> Sequence[Subscription]:
        """The handlers that stand around what follows, the outermost first."""
        check(event, "waterfall", payload)
        return self._handlers.get(event, ())

    async def aclose(self) -> None:
        """Let everything that is under way end, for a bounded time."""
        late = await self.calls.drain(self._settings.drain_s)
        if late:
            log.error("hooks_cut_off", calls=late)

    async def _told(self, event: str, one: Subscription, payload: Any) -> Failure | None:
        try:
            await self.calls.within(one.handler(payload), one.timeout_s, f"{event} {one.name}")
        except TimeoutError:
            log.warning("hook_timeout", hook=one.name, event_name=event, timeout_s=one.timeout_s)
            return Failure(one.name, "timeout", one.required)
        except Exception as error:
            log.error("hook_failed", hook=one.name, event_name=event, error=place_of(error))
            return Failure(one.name, "error", one.required)
        return None


def is_async(handler: Any) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
