"""Words said to a run while it goes on."""
