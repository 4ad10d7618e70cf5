"""What waits for Redis: in order per tenant, offered again until it is acknowledged, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.ops.feed_outbox import BATCH_BYTES, BATCH_ENTRIES, FeedOutbox, Outgoing


def entry(n: int, size_bytes: int = 10) -> Outgoing:
    return Outgoing("resp_1", 1, n, "run.updated", False, b"x" * size_bytes)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=400))
def test_every_entry_is_sent_in_its_order_whatever_fails_between(steps: list[tuple[str, bool, bool]]) -> None:
    outbox, sent, added = FeedOutbox(), dict[str, list[int]](), dict[str, list[int]]()
    for n, (tenant, sends, fails) in enumerate(steps):
        assert outbox.add(tenant, entry(n)) == {}
        added.setdefault(tenant, []).append(n)
        for of_tenant, batch in (outbox.batches() if sends else {}).items():
            if not fails or of_tenant == "a":
                sent.setdefault(of_tenant, []).extend(waiting.n for waiting in batch)
                outbox.acknowledge(of_tenant)
    assert len(outbox) == len(steps) - sum(map(len, sent.values()))
    while outbox:
        for tenant, batch in outbox.batches().items():
            sent.setdefault(tenant, []).extend(waiting.n for waiting in batch)
            outbox.acknowledge(tenant)
    assert sent == added and outbox.waiting_bytes == 0


def test_a_batch_is_offered_unchanged_until_it_is_acknowledged() -> None:
    outbox = FeedOutbox()
    outbox.add("a", entry(1))
    first = outbox.batches()
    outbox.add("a", entry(2))
    outbox.add("b", entry(3))
    assert outbox.batches() == {"a": first["a"], "b": [entry(3)]}
    outbox.acknowledge("a")
    assert outbox.batches() == {"a": [entry(2)], "b": [entry(3)]}


def test_a_batch_is_bounded_in_number_and_in_bytes() -> None:
    outbox = FeedOutbox()
    for n in range(BATCH_ENTRIES + 1):
        outbox.add("small", entry(n))
        outbox.add("large", entry(n, BATCH_BYTES // 2))
    batches = outbox.batches()
    assert len(batches["small"]) == BATCH_ENTRIES and len(batches["large"]) == 2
    outbox.add("huge", entry(1, 2 * BATCH_BYTES))
    assert len(outbox.batches()["huge"]) == 1


def test_without_room_all_that_waits_goes_and_what_is_on_its_way_stays() -> None:
    outbox = FeedOutbox(limit_bytes=10 * entry(0).size_bytes)
    outbox.add("a", entry(1))
    on_its_way = outbox.batches()
    for n in range(2, 6):
        outbox.add("a", entry(n))
        outbox.add("b", entry(n))
    assert outbox.add("b", entry(6)) == {}
    assert outbox.add("a", entry(7)) == {"a": 4, "b": 5}
    assert outbox.waiting_bytes == 2 * entry(0).size_bytes and len(outbox) == 2
    assert outbox.batches() == on_its_way
    outbox.acknowledge("a")
    assert outbox.batches() == {"a": [entry(7)]}
