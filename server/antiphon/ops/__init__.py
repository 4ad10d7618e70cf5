"""What operators see: every run and its state, each change numbered."""
