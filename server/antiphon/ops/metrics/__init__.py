"""Prometheus metrics: read from what is there at each scrape. `docs/operations.md` says what each tells."""
