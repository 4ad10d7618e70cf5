"""Ids are never the same twice, in no process."""

from __future__ import annotations

import os
import re

from antiphon.clock import RandomIds


def test_ids_are_version_seven_in_order_of_time_and_all_different() -> None:
    ids = RandomIds()
    made = [ids.mint("resp") for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"resp_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", one) for one in made)
    assert [one[:17] for one in made] == sorted(one[:17] for one in made)


def test_tokens_are_all_different() -> None:
    ids = RandomIds()
    assert len({ids.token() for _ in range(2_000)}) == 2_000


def test_a_forked_process_does_not_go_on_with_the_same_randomness() -> None:
    ids = RandomIds()
    ids.token()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.token().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read().decode() not in ("", ids.token())
