"""From an upstream's events to the one log of a run: our ids, our numbers, the full canonical order."""
