"""Runs of a dead process."""
