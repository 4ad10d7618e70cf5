"""Executing a run: its steps, in order, to its one end."""
