"""A chat as decisions: what to send to the server, and what to tell the person. No I/O, no clock."""
