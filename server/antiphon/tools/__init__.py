"""Tools the server itself executes: HTTP functions, MCP servers, Python functions, web search."""
