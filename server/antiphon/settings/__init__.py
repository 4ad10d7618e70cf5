"""What an operator can decide: one frozen tree (`tree.py`), its tables, how it is read and its reference page."""

from antiphon.settings.tree import Settings

__all__ = ["Settings"]
