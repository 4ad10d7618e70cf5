"""Calls that wait for clients, and who is there to answer them."""
