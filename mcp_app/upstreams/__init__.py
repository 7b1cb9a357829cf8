"""Connections to other MCP servers: Streamable HTTP, sessions and availability.

Rows and tools of these servers belong to the catalogue. The messages come from ``protocol.client``, and all
bytes pass through ``egress``.
"""
