"""CPU per delta of reading an upstream: the Responses passthrough, and the translation of Chat Completions.

    .venv/bin/python bench/translation.py          # --deltas 100000 --repeats 3; --json for `run.py`

Each line is the best of the repeats: in microseconds per delta, for reads of one delta and of twenty, alone and
with the assembler behind it. `over` is what translation costs above the passthrough.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence

import orjson

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.upstream.answer import AnswerReader
from antiphon.upstream.chat.tools import ChatTools
from antiphon.upstream.chat.upstream import ChatReader
from antiphon.upstream.http_upstream import Reader

MAX_EVENT_BYTES = 16 * 1024 * 1024
WORDS = ["Hello", " world", "é", " the", "漢字", " of", ".", " quick\n"]


def passthrough(word: str, number: int) -> bytes:
    event = {"type": "response.output_text.delta", "sequence_number": number, "item_id": f"msg_{'0' * 32}"}
    where = {"output_index": 0, "content_index": 0, "delta": word, "logprobs": []}
    return b"event: response.output_text.delta\ndata: %b\n\n" % orjson.dumps({**event, **where})


def chunk(delta: dict[str, object]) -> bytes:
    head = {"id": f"chatcmpl-{'0' * 24}", "object": "chat.completion.chunk", "created": 1764500000}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return b"data: %b\n\n" % orjson.dumps({**head, "model": "Qwen/Qwen3-30B", "choices": [choice]})


def call(word: str, number: int) -> bytes:
    function = {"arguments": word} if number else {"name": "f", "arguments": word}
    return chunk({"tool_calls": [{"index": 0, "function": function}]})


def chat_reader() -> Reader:
    return ChatReader(MAX_EVENT_BYTES, ChatTools({}))


KINDS: dict[str, tuple[Callable[[], Reader], Callable[[str, int], bytes]]] = {
    "responses": (lambda: AnswerReader(MAX_EVENT_BYTES), passthrough),
    "chat text": (chat_reader, lambda word, number: chunk({"content": word})),
    "chat reasoning": (chat_reader, lambda word, number: chunk({"reasoning_content": word})),
    "chat arguments": (chat_reader, call),
}


def cost_us(reader: Reader, reads: Sequence[bytes], deltas: int, assembled: bool) -> float:
    """CPU for each delta."""
    numbers = itertools.count()
    assembler = Assembler(ResponseObject("resp_1", 1, {"model": "m"}), lambda prefix: f"{prefix}_{next(numbers)}")
    begun = time.process_time()
    for read in reads:
        events = reader.feed(read)
        if assembled:
            assembler.feed(events)
    return (time.process_time() - begun) / deltas * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deltas", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="only the worst `over` of each kind, as JSON")
    options = parser.parse_args()
    if not options.json:
        print(f"{'a read':>7} {'':>10} {'':<15} {'us/delta':>9} {'over':>6}")
    worst: dict[str, float] = {}
    for per_read, assembled in itertools.product((1, 20), (False, True)):
        base = 0.0
        for name, (reader, make) in KINDS.items():
            events = [make(WORDS[i % len(WORDS)], i) for i in range(options.deltas)]
            reads = [b"".join(events[i : i + per_read]) for i in range(0, len(events), per_read)]
            best = min(cost_us(reader(), reads, options.deltas, assembled) for _ in range(options.repeats))
            base = base or best
            kind = name.removeprefix("chat ")
            worst[kind] = max(worst.get(kind, 0.0), best - base)
            if not options.json:
                what = "assembled" if assembled else "read"
                print(f"{per_read:>7} {what:>10} {name:<15} {best:>9.2f} {best - base:>6.2f}")
    if options.json:
        print(orjson.dumps({"over_us": worst}).decode())


if __name__ == "__main__":
    main()
