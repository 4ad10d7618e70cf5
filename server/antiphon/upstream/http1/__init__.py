"""A lean HTTP/1.1 client for the one thing that happens all the time: ask a model server, read its stream."""
