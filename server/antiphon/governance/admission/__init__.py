"""Whether a run may begin: counters, reservations, pause and emergency stop."""
