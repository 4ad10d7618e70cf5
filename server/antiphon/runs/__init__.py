"""The engine: the one door, the owner of every run, its loop, its end, and what happens after a crash."""
