"""Suites that others wrote, run against this server: `python -m tests.outside`, `make test-outside`."""
