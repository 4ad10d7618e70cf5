"""The feed as subscribers get it: one view per tenant and node, however many of them there are."""
