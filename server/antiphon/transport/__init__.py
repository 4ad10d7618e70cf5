"""ASGI, WebSocket, HTTP and SSE: what a byte on a socket means, and who sent it."""
