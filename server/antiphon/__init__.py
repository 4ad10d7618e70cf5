"""Antiphon: a self-hosted real-time server for AI agent runs."""

from importlib.metadata import version

__version__ = version("antiphon")
