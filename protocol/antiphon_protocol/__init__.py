"""The wire of Antiphon as data: error codes, events, items and extension frames, usable without the server."""
