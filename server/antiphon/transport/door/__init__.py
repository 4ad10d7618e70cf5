"""The door: what is checked on every request and upgrade before anything else looks at it."""

from antiphon.transport.door.door import Door

__all__ = ["Door"]
