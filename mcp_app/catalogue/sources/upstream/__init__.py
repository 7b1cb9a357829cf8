"""The source of tools of other MCP servers: their approved definitions, and their calls."""
