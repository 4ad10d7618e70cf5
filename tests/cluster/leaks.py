"""How much every container of a node holds, so that a test sees what grew without knowing where to look."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sized
from typing import Any

CONTAINERS = (dict, set, list, deque)


def sizes(root: Any) -> dict[str, int]:
    """The length of each container that objects of ours reach from `root`, by the class and attribute that has it.

    Instances of one class count together, so that a class of which there are more and more shows as well.
    """
    gc.collect()
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _attributes(one):
            path = f"{type(one).__module__}.{type(one).__qualname__}.{name}"
            if isinstance(value, CONTAINERS):
                found[path] = found.get(path, 0) + len(value)
                waiting += _ours(value)
            elif _is_ours(value):
                waiting.append(value)
        count = f"{type(one).__module__}.{type(one).__qualname__}"
        found[count] = found.get(count, 0) + 1
    return found


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    yield from vars(one).items() if hasattr(one, "__dict__") else ()
    for base in type(one).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(one, name):
                yield name, getattr(one, name)


def _ours(container: Sized) -> Iterator[Any]:
    """What of ours a container holds, also in containers within it."""
    values: Any = [*container.keys(), *container.values()] if isinstance(container, dict) else container
    for value in values:
        if isinstance(value, (*CONTAINERS, tuple)):
            yield from _ours(value)
        elif _is_ours(value):
            yield value


def _is_ours(value: Any) -> bool:
    owner = getattr(value, "__self__", None)
    return type(value).__module__.startswith("antiphon") if owner is None else _is_ours(owner)
