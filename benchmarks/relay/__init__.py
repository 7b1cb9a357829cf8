"""Calls of another MCP server's tools, beside FastMCP's proxy and a proxy of the official SDK."""
