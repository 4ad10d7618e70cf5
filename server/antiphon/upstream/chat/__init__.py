"""Chat Completions servers: the Responses body is translated for them, and their chunks into Responses events."""
