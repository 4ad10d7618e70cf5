"""Tickets: once, soon, and for one page."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.bus.memory import MemoryHub, memory_bus
from antiphon.core.principal import Principal
from antiphon.errors import Unauthorized
from antiphon.governance.identity.tickets import Tickets
from tests.identity.signing import TurnedClock

ANNA = Principal("user:anna", "acme", "driver", "pro", 5e9, "jwt:one")
PAGE = "https://chat.example"


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def tickets(clock: TurnedClock) -> Tickets:
    return Tickets(memory_bus("node", clock), clock, 30)


async def refused(tickets: Tickets, ticket: str, origin: str | None = PAGE) -> bool:
    with pytest.raises(Unauthorized) as error:
        await tickets.redeem(ticket, origin)
    return error.value.code == "invalid_ticket" and ticket not in error.value.message


async def test_a_ticket_is_who_it_was_given_to_and_says_until_when(tickets: Tickets, clock: TurnedClock) -> None:
    ticket, until = await tickets.issue(ANNA, PAGE)
    assert until == clock.at + 30
    assert await tickets.redeem(ticket, PAGE) == ANNA


async def test_a_ticket_is_used_once_however_many_try_at_once(tickets: Tickets) -> None:
    ticket, _ = await tickets.issue(ANNA, PAGE)
    tried = await asyncio.gather(*(tickets.redeem(ticket, PAGE) for _ in range(20)), return_exceptions=True)
    assert [one for one in tried if not isinstance(one, Unauthorized)] == [ANNA]


async def test_a_ticket_is_for_one_origin_and_whoever_shows_it_elsewhere_has_used_it_up(tickets: Tickets) -> None:
    for wrong in ("https://evil.chat.example", "https://chat.example.evil", "http://chat.example", None):
        ticket, _ = await tickets.issue(ANNA, PAGE)
        assert await refused(tickets, ticket, wrong)
        assert await refused(tickets, ticket)
    ticket, _ = await tickets.issue(ANNA, None)
    assert await refused(tickets, ticket)


async def test_a_ticket_runs_out(tickets: Tickets, clock: TurnedClock) -> None:
    ticket, _ = await tickets.issue(ANNA, PAGE)
    clock.at += 30
    assert await refused(tickets, ticket)


@pytest.mark.parametrize(
    "ticket", ["", "tk_", "tk_" + "x" * 32, "x" * 35, "tk_" + "x" * 31 + "ü", "tk_" + "x" * 4000]
)
async def test_what_is_no_ticket_lets_nobody_in(tickets: Tickets, ticket: str) -> None:
    with pytest.raises(Unauthorized):
        await tickets.redeem(ticket, PAGE)
    with pytest.raises(Unauthorized):
        await tickets.redeem(ticket, PAGE)


async def test_values_whose_time_is_over_are_not_kept(clock: TurnedClock) -> None:
    hub = MemoryHub()
    for number in range(5_000):
        if number % 1_000 == 0:
            clock.at += 60
            hub.forget_old(clock.at)
        hub.kept[f"key {number}"] = (b"", clock.at + 30)
    hub.forget_old(clock.at + 60)
    assert len(hub.kept) <= 2_048
