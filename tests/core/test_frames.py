"""Bytes of events as sockets and SSE bodies carry them, read back by an independent parser."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from antiphon.core.assembly.wire import encode, event_type_of
from antiphon.journal.frames import Batch, lane_suffix, sse_event, text_frame

T = TypeVar("T")


def parse(data: bytes) -> list[Frame]:
    """All frames in `data`, as a client's library reads them. Nothing may be left over."""
    reader = StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    frames: list[Frame] = []
    while not run(reader.at_eof()):
        frames.append(run(Frame.parse(reader.read_exact, mask=False)))
    return frames


def run(step: Generator[None, None, T]) -> T:
    """A step of the library's reader, which needs nothing but the bytes it was given."""
    try:
        next(step)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the frame is cut off")


@pytest.mark.parametrize("size", [0, 1, 124, 125, 126, 127, 65_534, 65_535, 65_536, 65_537, 1_000_000])
def test_a_frame_of_any_size_is_one_final_unmasked_text_frame(size: int) -> None:
    (frame,) = parse(text_frame(b"x" * size))
    assert (frame.opcode, frame.fin, frame.rsv1, len(frame.data)) == (Opcode.TEXT, True, False, size)


@pytest.mark.parametrize(("size", "header"), [(125, 2), (126, 4), (65_535, 4), (65_536, 10)])
def test_the_length_takes_the_fewest_bytes_the_protocol_allows(size: int, header: int) -> None:
    assert len(text_frame(b"x" * size)) == size + header


@given(
    st.lists(st.text(max_size=200), max_size=6),
    st.none() | st.text("abcXYZ019_.-", min_size=1, max_size=256),
    st.integers(0, 2**53),
)
def test_a_batch_is_one_frame_an_event_with_the_lane_last(texts: list[str], lane: str | None, first: int) -> None:
    events = [encode("response.output_text.delta", first + n, {"delta": text}) for n, text in enumerate(texts)]
    batch = Batch(first, events)
    frames = parse(batch.frames(lane))
    assert batch.last == first + len(events) - 1
    assert len(frames) == len(events)
    for frame, event in zip(frames, events, strict=True):
        parsed = orjson.loads(frame.data)
        assert parsed == orjson.loads(event) | ({} if lane is None else {"stream_id": lane})
        if lane is not None:
            assert list(parsed)[-1] == "stream_id"


def test_the_event_of_the_default_lane_is_the_log_byte_for_byte() -> None:
    event = encode("response.output_text.delta", 7, {"delta": "a"})
    assert [bytes(frame.data) for frame in parse(Batch(7, [event]).frames(None))] == [event]


def test_every_viewer_of_a_lane_gets_the_same_bytes_object() -> None:
    batch = Batch(0, [encode("response.created", 0, {})])
    assert batch.frames("a") is batch.frames("a")
    assert batch.frames("a") != batch.frames("b")


def test_the_frame_sizes_count_the_lane() -> None:
    suffix = len(lane_suffix("main")) - 1
    for whole in (125, 126, 65_535, 65_536):
        event = b'{"type":"x","d":"' + b"." * (whole - suffix - 19) + b'"}'
        (frame,) = parse(Batch(0, [event]).frames("main"))
        assert len(frame.data) == whole
        assert orjson.loads(frame.data)["stream_id"] == "main"


@given(st.text(max_size=100), st.integers(0, 2**53))
def test_an_sse_event_is_four_lines_with_the_data_in_one(text: str, number: int) -> None:
    event = encode("response.output_text.delta", number, {"delta": text})
    name, event_id, data, *rest = sse_event(event, f"9f3c.{number}").split(b"\n")
    assert name == b"event: response.output_text.delta"
    assert event_id == b"id: 9f3c.%d" % number
    assert orjson.loads(data.removeprefix(b"data: ")) == orjson.loads(event)
    assert rest == [b"", b""]
    assert b"\r" not in data


@pytest.mark.parametrize("kind", ["response.created", "response.output_text.delta", "keepalive"])
def test_the_type_of_an_event_is_read_without_parsing_it(kind: str) -> None:
    assert event_type_of(encode(kind, 0, {"type_of": "x"})) == kind
