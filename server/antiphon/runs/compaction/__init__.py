"""Histories made shorter, and sealed."""
