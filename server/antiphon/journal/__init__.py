"""The event log of each run: one writer, any number of readers, each at its own number."""
