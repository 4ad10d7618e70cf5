"""Runs of other nodes: found, mirrored and spoken to as if they were here."""
