"""A small client for the terminal: what `antiphon tail` and `antiphon chat` speak to a server with.

`link.py` is the socket that comes back, `pages.py` the requests over HTTP; the rest decides and does no I/O.
"""
