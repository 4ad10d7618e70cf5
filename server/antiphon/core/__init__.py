"""Pure decisions: no asyncio, time, random, os or logging in here. A test holds it."""
