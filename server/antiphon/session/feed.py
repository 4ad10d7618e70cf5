"""The feeds that one connection is subscribed to (PROTOCOL 10.10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from antiphon.core.feed_frames import FeedMessage
from antiphon.core.feed_scope import FeedScope, feed_tenant
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.journal.frames import text_frame
from antiphon.ops.feed.subscription import FeedSubscription
from antiphon.ops.feed.view import FeedView
from antiphon.ops.feed.views import FeedViews
from antiphon.session.caller import Caller
from antiphon.session.socket import Socket
from antiphon_protocol.feed import FeedFilter, FeedSubscribe, FeedUnsubscribe


class SocketSink:
    """A feed's way to a socket."""

    encoding = "frame"

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    @property
    def full(self) -> bool:
        return self._socket.full

    @property
    def open(self) -> bool:
        return self._socket.open

    def encode(self, message: FeedMessage) -> bytes:
        return text_frame(message.payload)

    def write(self, data: bytes) -> None:
        self._socket.write_frames(data)


@dataclass(frozen=True, slots=True)
class _Subscribed:
    """A subscription, what was asked for, as whom, and what ends its count."""

    view: FeedView
    subscription: FeedSubscription
    wanted: dict[str, Any]
    principal: Principal
    end: Callable[[], None]


class Feeds:
    """Subscriptions by tenant."""

    def __init__(self, views: FeedViews, caller: Caller, socket: Socket, limit: int) -> None:
        self._views = views
        self._caller = caller
        self._sink = SocketSink(socket)
        self._limit = limit
        self._subscribed: dict[str, _Subscribed] = {}

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[dict[str, Any] | None]]]:
        return {"antiphon:feed.subscribe": self._subscribe, "antiphon:feed.unsubscribe": self._unsubscribe}

    def wake(self) -> None:
        """The socket has room again, or is gone."""
        for one in list(self._subscribed.values()):
            one.subscription.wake()

    def access_changed(self) -> None:
        """The caller showed newer credentials, which may give it less."""
        principal = self._caller.principal
        for tenant, one in list(self._subscribed.items()):
            if one.principal.role == principal.role:
                continue
            view, wanted = one.view, one.wanted
            if tenant != principal.tenant and not principal.at_least("admin"):
                self._drop(tenant)
                self._sink.write(self._sink.encode(view.frames.reset("access")))
                continue
            self._subscribed[tenant] = _Subscribed(view, one.subscription, wanted, principal, one.end)
            scope = FeedScope.of(principal, wanted)
            if scope != one.subscription.audience.scope:
                view.narrow(one.subscription, scope)

    def close(self) -> None:
        """The connection is gone."""
        for tenant in list(self._subscribed):
            self._drop(tenant)

    async def _subscribe(self, command: FeedSubscribe) -> None:
        """The bookmark is the answer. Raises RequestError, StorageError."""
        principal = self._caller.principal
        tenant = feed_tenant(principal, command.tenant)
        wanted = _wanted(command.filter)
        scope = FeedScope.of(principal, wanted)
        if tenant not in self._subscribed and len(self._subscribed) >= self._limit:
            raise RequestError(f"This connection may hold {self._limit} feeds.", code="too_many_feeds")
        position = (command.from_.epoch, command.from_.rev) if command.from_ is not None else None
        view = await self._views.view_from(tenant, position)
        before = self._subscribed.get(tenant)
        end = before.end if before is not None else self._views.admit(principal)
        if before is not None:
            before.subscription.close()
        subscription = view.subscribe(scope, command.mode, self._sink, position=position, command_id=command.id)
        self._subscribed[tenant] = _Subscribed(view, subscription, wanted, principal, end)

    async def _unsubscribe(self, command: FeedUnsubscribe) -> dict[str, Any]:
        self._drop(command.tenant or self._caller.principal.tenant)
        return {"type": "antiphon:ok", "id": command.id}

    def _drop(self, tenant: str) -> None:
        one = self._subscribed.pop(tenant, None)
        if one is not None:
            one.subscription.close()
            one.end()


def _wanted(given: FeedFilter | None) -> dict[str, Any]:
    return given.model_dump(exclude_none=True) if given is not None else {}
