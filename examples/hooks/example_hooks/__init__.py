"""One worked example of each kind of extension. docs/hooks.md explains them."""
