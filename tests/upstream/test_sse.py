"""The reader of event streams: any legal bytes, cut anywhere, give the same events."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import UpstreamError
from antiphon.upstream.sse import SseEvent, SseReader

LIMIT = 1024


def read(*chunks: bytes, limit: int = LIMIT) -> list[SseEvent]:
    reader = SseReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.end()


def single_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\n\n", [(b"", b"")]),
        (b"event: x\ndata: a\n\n", [(b"x", b"a")]),
        (b"data: a\nevent: x\n\n", [(b"x", b"a")]),
        (b"event:x\ndata:a\n\n", [(b"x", b"a")]),
        (b"event: x\nevent: y\ndata: a\n\n", [(b"y", b"a")]),
        (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
        (b"data: a\n\nevent: x\ndata: b\n\n", [(b"", b"a"), (b"x", b"b")]),
        (b": ping\n\n", []),
        (b": ping\ndata: a\n\n", [(b"", b"a")]),
        (b"id: 7\nretry: 10\ndata: a\n\n", [(b"", b"a")]),
        (b"nonsense\ndata: a\n\n", [(b"", b"a")]),
        (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"data: a:b: c\n\n", [(b"", b"a:b: c")]),
        (b"data: data: a\n\n", [(b"", b"data: a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"data: \xef\xbb\xbfa\n\n", [(b"", "\ufeffa".encode())]),
    ],
)
def test_every_field_rule_holds_with_every_line_end_and_every_cut(stream: bytes, events: list[SseEvent]) -> None:
    for line_end in (b"\n", b"\r\n", b"\r"):
        data = stream.replace(b"\n", line_end)
        assert read(data) == events
        assert read(*single_bytes(data)) == events


FIELD = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"event: n", b": c", b"id: 1", "data: 漢🚀é".encode(), b""]
)
LINE = st.tuples(FIELD, st.sampled_from([b"\n", b"\r\n", b"\r"]))


@st.composite
def streams_and_cuts(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], list[int]]:
    lines = draw(st.lists(LINE, max_size=30))
    size = sum(len(text) + len(end) for text, end in lines)
    return lines, sorted(draw(st.lists(st.integers(0, size), max_size=12)))


@settings(max_examples=400, deadline=None)
@given(streams_and_cuts())
def test_any_mixture_of_line_ends_cut_anywhere_gives_the_same_events(
    case: tuple[list[tuple[bytes, bytes]], list[int]],
) -> None:
    lines, cuts = case
    joined = b""
    for text, end in lines:
        # CR, then an empty line ended by LF, would read as one CRLF: another stream, not another cut.
        crlf = joined.endswith(b"\r") and not text and end == b"\n"
        joined += text + (b"\r\n" if crlf else end)
    expected = read(b"".join(text + b"\n" for text, _ in lines))
    edges = [0, *(min(cut, len(joined)) for cut in cuts), len(joined)]
    chunks = [joined[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert read(*chunks) == expected
    assert read(*single_bytes(joined)) == expected


def test_a_bare_cr_at_the_end_of_a_chunk_does_not_hold_back_the_event() -> None:
    reader = SseReader(LIMIT)
    assert reader.feed(b"data: a\r\r") == [(b"", b"a")]
    assert reader.feed(b"data: b\r\r") == [(b"", b"b")]


def test_an_lf_after_a_cr_at_the_end_of_a_chunk_belongs_to_it() -> None:
    assert read(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c\r\n\r\n") == [(b"", b"a\nb"), (b"", b"c")]


def test_characters_cut_by_chunks_arrive_whole() -> None:
    text = "é漢🚀👩‍💻".encode()
    assert read(*single_bytes(b"data: " + text + b"\n\n")) == [(b"", text)]


@pytest.mark.parametrize("broken", [b"\xff", b"a\xe6\xbc", b"\xf0\x9f\x9a", b"\xed\xa0\x80", b"\xc0\x80"])
def test_invalid_utf8_is_replaced_and_the_stream_goes_on(broken: bytes) -> None:
    first, second = read(b"data: <" + broken + b">\n\ndata: b\n\n")
    assert first[1].decode() == "<" + broken.decode("utf-8", "replace") + ">"
    assert second == (b"", b"b")


def test_a_truncated_character_at_the_end_of_the_stream_is_replaced() -> None:
    assert read(b"data: a\xf0\x9f") == [(b"", "a\ufffd".encode())]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_an_event_without_its_blank_line_is_given_at_the_end(end: bytes) -> None:
    assert read(b"event: error\ndata: a" + end) == [(b"error", b"a")]


def test_nothing_is_given_at_the_end_when_nothing_is_left() -> None:
    assert read() == []
    assert read(b"data: a\n\n") == [(b"", b"a")]
    assert read(b"event: x") == []
    assert read(b"\xef\xbb") == []


def test_the_end_marker_is_seen_and_not_given_and_nothing_follows_it() -> None:
    reader = SseReader(LIMIT)
    assert reader.feed(b"data: a\n\ndata: [DONE]\n\ndata: b\n\n") == [(b"", b"a")]
    assert reader.done
    assert reader.feed(b"data: c\n\n") == []
    assert reader.end() == []


def test_the_end_marker_counts_without_its_blank_line() -> None:
    reader = SseReader(LIMIT)
    assert reader.feed(b"data:[DONE]") == []
    assert reader.end() == []
    assert reader.done


def test_an_event_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    fitting = b"data: " + b"x" * (LIMIT - 6)
    assert read(fitting + b"\n\n") == [(b"", b"x" * (LIMIT - 6))]
    assert len(read(*single_bytes(fitting + b"\n\n"))) == 1
    for chunks in ([fitting + b"x\n\n"], single_bytes(fitting + b"x\n\n"), [fitting, b"x"]):
        with pytest.raises(UpstreamError, match=f"larger than the limit of {LIMIT} bytes") as caught:
            read(*chunks)
        assert caught.value.code == "upstream_error"


@pytest.mark.parametrize("rest", [b"", b"\n\n", b"\n\ndata: c\n\n"])
def test_events_before_one_that_is_too_large_are_given_first(rest: bytes) -> None:
    reader = SseReader(LIMIT)
    assert reader.feed(b"data: a\n\ndata: b\n\ndata: " + b"x" * LIMIT + rest) == [(b"", b"a"), (b"", b"b")]
    with pytest.raises(UpstreamError):
        reader.feed(b"data: d\n\n")
    with pytest.raises(UpstreamError):
        reader.end()


def test_a_stream_much_longer_than_the_limit_passes_when_its_events_are_small() -> None:
    event = b"data: " + b"x" * 100 + b"\n\n"
    assert len(read(event * 1000)) == 1000
    assert len(read(*[event * 7] * 50, limit=200)) == 350


@pytest.mark.parametrize("size", [100_000, 1_000_000, 5_000_000])
def test_large_events_arrive_whole(size: int) -> None:
    stream = b"data: " + b"x" * size + b"\n\n"
    for step in (1460, 65_536, len(stream)):
        chunks = [stream[i : i + step] for i in range(0, len(stream), step)]
        assert read(*chunks, limit=16 * 1024 * 1024) == [(b"", b"x" * size)]


def test_the_cost_of_a_large_event_grows_with_its_size_and_not_with_its_square() -> None:
    def cost_s(size: int) -> float:
        chunk = b"x" * 64
        best = float("inf")
        for _ in range(3):
            reader = SseReader(size * 2)
            start = time.process_time()
            reader.feed(b"data: ")
            for _ in range(size // 64):
                reader.feed(chunk)
            reader.feed(b"\n\n")
            best = min(best, time.process_time() - start)
        return best

    # Eight times the size costs 8 times as much, and 64 times if the buffer were scanned again each time.
    assert cost_s(4_000_000) < 25 * cost_s(500_000)
