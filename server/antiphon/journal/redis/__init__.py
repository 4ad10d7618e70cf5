"""The journal on Redis Streams: the owner numbers, one Lua call per run and flush checks and appends."""
